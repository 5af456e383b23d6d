"""The rules a single broker can show: each holds on a story, and the same story without it breaks a named check.

The checks are those of RELIABILITY's history checkers: they look at what clients sent, were told and read, never at the
rule itself.
"""

import asyncio
import errno
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from hightide.errors import ErrorCode
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.sim.images import LOST
from hightide.types import ZERO_UUID
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from hightide.wire.messages.init_producer_id import InitProducerIdRequest
from hightide.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hightide.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from hightide.wire.records import iterate_headers
from tests.memory_world import MemoryBroker
from tests.requests import batch, create_topic, delete_topic, fetch, produce, produce_batch, records_in, values_of

SEGMENT = "data/t-0/00000000000000000000.log"


def run(story: Coroutine[Any, Any, list[str]]) -> list[str]:
    return asyncio.run(story)


async def produced(broker: MemoryBroker, value: bytes, topic: str | bytes = "t", **options: Any) -> Any:
    version = 9 if isinstance(topic, str) else 13
    answer = await broker.call(produce(topic, [value], **options), version)
    return answer.responses[0].partition_responses[0]


async def fetched(broker: MemoryBroker, offset: int = 0, **asked: Any) -> Any:
    """The answer for partition 0 of t; `asked` are fields of the partition."""
    request = fetch("t", offset)
    for name, value in asked.items():
        setattr(request.topics[0].partitions[0], name, value)
    return (await broker.call(request, 12)).responses[0].partitions[0]


def in_flight(broker: MemoryBroker) -> bool:
    """Whether a request of this connection waits for its answer."""
    return broker.connection.replies.empty()


async def restarted(broker: MemoryBroker, disk: SimulatedDisk, *, power: bool = False, **options: Any) -> MemoryBroker:
    broker.die()
    if power:
        disk.power_loss(random.Random(0), (LOST,))
    else:
        disk.kill()
    return await MemoryBroker(disk, seed=broker.node.broker_epoch + 1, **options).start()


async def settle() -> None:
    """Let everything happen that can happen without time passing or syncs ending."""
    for _ in range(200):
        await asyncio.sleep(0)


# R11


async def a_retry_arrives_before_the_original_is_synced(rules: Rules) -> list[str]:
    """The producer's connection broke, it sends the batch again, and power is lost right after an answer to that."""
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t"), 7)
    given = await broker.call(InitProducerIdRequest(transactional_id=None), 4)
    sent = batch([b"once"], producer_id=given.producer_id, producer_epoch=given.producer_epoch, base_sequence=0)
    broker.world.syncer.held = True
    broker.send(produce_batch("t", sent), 9)
    broker.connection = broker.world.network.client()
    broker.send(produce_batch("t", sent), 9)
    await settle()
    acknowledged = [] if in_flight(broker) else [b"once"]
    again = await restarted(broker, disk, power=True)
    found = values_of(await again.call(fetch("t"), 12))
    await again.node.stop()
    return [f"K4: {value!r} was acknowledged and is gone" for value in acknowledged if value not in found]


@pytest.mark.covers("N11")
def test_r11_a_duplicate_is_not_answered_before_the_original_is_committed() -> None:
    assert run(a_retry_arrives_before_the_original_is_synced(ALL_ON)) == []
    assert run(a_retry_arrives_before_the_original_is_synced(ALL_ON.without("r11_duplicates_park"))) != []


@pytest.mark.covers("N11")
def test_r11_both_get_the_offset_of_the_original() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t"), 7)
        sent = batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=0)
        await produced(broker, b"before")
        broker.world.syncer.held = True
        for _ in range(3):
            broker.send(produce_batch("t", sent), 9)
        await settle()
        assert in_flight(broker)
        broker.world.syncer.release()
        answers = [(await broker.receive(0, 9)).responses[0].partition_responses[0] for _ in range(3)]
        assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1)] * 3
        assert values_of(await broker.call(fetch("t"), 12)) == [b"before", b"a", b"b"]
        await broker.node.stop()

    asyncio.run(scenario())


# R13


async def a_consumer_follows_its_own_write(rules: Rules) -> list[str]:
    """It writes with acks=1 and polls from behind that record on; out of range sends it back to the start."""
    broker = await MemoryBroker(SimulatedDisk(), rules=rules).start()
    await broker.call(create_topic("t"), 7)
    await produced(broker, b"old")
    broker.world.syncer.held = True
    position = (await produced(broker, b"own", acks=1)).base_offset + 1
    read: list[int] = []
    for step in range(3):
        if step == 1:
            broker.world.syncer.release()
            await produced(broker, b"next")
        answer = await fetched(broker, position)
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            position = 0
            continue
        assert answer.error_code == 0
        for record in records_in(answer.records or b""):
            read.append(record.offset)
            position = record.offset + 1
    await broker.node.stop()
    return [f"K8: offset {offset} was polled behind a position of 2" for offset in read if offset < 2]


def test_r13_between_high_watermark_and_end_is_empty_not_out_of_range() -> None:
    assert run(a_consumer_follows_its_own_write(ALL_ON)) == []
    assert run(a_consumer_follows_its_own_write(ALL_ON.without("r13_empty_above_high_watermark"))) != []


def test_r13_only_outside_the_log_is_out_of_range() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t"), 7)
        broker.world.syncer.held = True
        for value in (b"a", b"b"):
            await produced(broker, value, acks=1)
        codes = [(await fetched(broker, offset)).error_code for offset in (-1, 0, 1, 2, 3)]
        beyond = ErrorCode.OFFSET_OUT_OF_RANGE
        assert codes == [beyond, ErrorCode.NONE, ErrorCode.NONE, ErrorCode.NONE, beyond]
        broker.die()

    asyncio.run(scenario())


# R8 and R2


async def a_tail_is_lost_and_another_grows(rules: Rules) -> list[str]:
    """Durability `replicated`: power loss takes what a consumer has read. It goes on, and says which epoch it read."""
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t", hightide_durability="replicated"), 7)
    broker.world.syncer.held = True
    for value in (b"a", b"b"):
        assert (await produced(broker, value)).error_code == 0
    answer = await fetched(broker)
    first = {record.offset: record.value for record in records_in(answer.records)}
    epoch = next(header.partition_leader_epoch for _, header in iterate_headers(answer.records))
    assert sorted(first) == [0, 1], "the story needs a consumer that has read"
    again = await restarted(broker, disk, power=True, rules=rules)
    for value in (b"x", b"y", b"z"):
        assert (await produced(again, value)).error_code == 0
    answer = await fetched(again, 2, last_fetched_epoch=epoch)
    second = {record.offset: record.value for record in records_in((await fetched(again)).records)}
    changed = [offset for offset in first if second.get(offset) != first[offset]]
    was_told = answer.diverging_epoch.end_offset >= 0
    await again.node.stop()
    return [] if was_told else [f"K1: offset {offset} had two values, and nobody was told" for offset in changed]


def test_r8_a_new_life_is_a_new_epoch_so_that_lost_tails_are_noticed() -> None:
    assert run(a_tail_is_lost_and_another_grows(ALL_ON)) == []
    assert run(a_tail_is_lost_and_another_grows(ALL_ON.without("r8_new_epoch_every_start"))) != []


async def two_lives_write(rules: Rules) -> list[str]:
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t"), 7)
    writers: dict[int, int] = {}
    for life in range(3):
        if life:
            broker = await restarted(broker, disk, rules=rules)
        offset = (await produced(broker, b"life %d" % life)).base_offset
        writers[offset] = life
    data = (await fetched(broker)).records
    epochs = {header.base_offset: header.partition_leader_epoch for _, header in iterate_headers(data)}
    await broker.node.stop()
    lives: dict[int, set[int]] = {}
    for offset, life in writers.items():
        lives.setdefault(epochs[offset], set()).add(life)
    return [f"I12: epoch {epoch} was written by lives {who}" for epoch, who in lives.items() if len(who) > 1]


def test_r8_every_life_writes_in_an_epoch_of_its_own() -> None:
    assert run(two_lives_write(ALL_ON)) == []
    assert run(two_lives_write(ALL_ON.without("r8_new_epoch_every_start"))) != []


@pytest.mark.covers("C33")
def test_r2_requests_of_another_epoch_are_refused() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        await produced(broker, b"a")
        old = broker.node.partition("t", 0).replica.leader_epoch
        broker = await restarted(broker, disk)
        current = broker.node.partition("t", 0).replica.leader_epoch
        assert current > old
        expected = {
            old: ErrorCode.FENCED_LEADER_EPOCH,
            current: ErrorCode.NONE,
            -1: ErrorCode.NONE,
            current + 1: ErrorCode.UNKNOWN_LEADER_EPOCH,
        }
        for epoch, code in expected.items():
            assert (await fetched(broker, current_leader_epoch=epoch)).error_code == code
            assert (await listed(broker, epoch)).error_code == code
            assert (await epoch_end(broker, epoch)).error_code == code
        await broker.node.stop()

    asyncio.run(scenario())


async def listed(broker: MemoryBroker, epoch: int) -> Any:
    asked = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    answer = await broker.call(ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])]), 7)
    return answer.topics[0].partitions[0]


async def epoch_end(broker: MemoryBroker, epoch: int) -> Any:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    topics = [OffsetForLeaderTopic(topic="t", partitions=[asked])]
    answer = await broker.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
    return answer.topics[0].partitions[0]


# R17


async def a_bit_turns(rules: Rules, *, clean: bool) -> list[str]:
    """In the middle of what was synced and acknowledged, while the broker was down."""
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t", partitions=2), 7)
    acknowledged = [b"%d" % number + bytes(100) for number in range(6)]
    for value in acknowledged:
        for partition in range(2):
            assert (await produced(broker, value, partition=partition)).error_code == 0
    await broker.node.checkpoints.write()
    if clean:
        await broker.node.stop()
    broker.die()
    disk.kill()
    before = disk.image()[SEGMENT]
    disk.flip(SEGMENT, len(before) // 2)
    again = await MemoryBroker(disk, seed=1, rules=rules).start()
    broken = await broken_promises(again, acknowledged)
    if not broken:
        assert (await fetched(again)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await produced(again, b"more")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await listed(again, -1)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(disk.image()[SEGMENT]) == len(before), "nothing is deleted"
    assert (await produced(again, b"more", partition=1)).error_code == 0
    assert values_of(await again.call(fetch("t", partition=1), 12)) == [*acknowledged, b"more"]
    again.die()
    return broken


async def broken_promises(broker: MemoryBroker, acknowledged: list[bytes]) -> list[str]:
    """What a reader of partition 0 can hold against it; an error is an honest answer."""
    answer = await fetched(broker)
    if answer.error_code:
        return []
    found = [record.value for record in records_in(answer.records or b"")]
    return [f"K4: {value[:1]!r} was acknowledged and is gone" for value in acknowledged if value not in found] + [
        f"K12: {value!r} was never sent" for value in found if value not in acknowledged
    ]


def test_r17_a_flipped_bit_is_never_turned_into_a_shorter_log() -> None:
    assert run(a_bit_turns(ALL_ON, clean=False)) == []
    assert run(a_bit_turns(ALL_ON.without("r17_quarantine_synced_corruption"), clean=False)) != []


def test_i31_a_flipped_bit_after_a_clean_stop_is_found_when_it_is_read() -> None:
    assert run(a_bit_turns(ALL_ON, clean=True)) == []


async def a_directory_is_lost(rules: Rules) -> list[str]:
    """Somebody removed it, or a repair of the file system did."""
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t", partitions=2), 7)
    acknowledged = [b"%d" % number for number in range(3)]
    for value in acknowledged:
        assert (await produced(broker, value)).error_code == 0
    await broker.node.stop()
    disk.kill()
    for path in disk.image():
        if path.startswith("data/t-0/"):
            disk.lose(path)
    disk.lose("data/t-0")
    again = await MemoryBroker(disk, seed=1, rules=rules).start()
    broken = await broken_promises(again, acknowledged)
    assert (await produced(again, b"other", partition=1)).error_code == 0
    again.die()
    return broken


def test_r17_a_lost_directory_is_not_taken_for_a_new_one() -> None:
    assert run(a_directory_is_lost(ALL_ON)) == []
    assert run(a_directory_is_lost(ALL_ON.without("r17_quarantine_synced_corruption"))) != []


# R22


async def a_deletion_is_interrupted_and_the_topic_made_again(rules: Rules) -> list[str]:
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t"), 7)
    await produced(broker, b"of the old topic")
    disk.fail("rename", "/data/*-delete", code=errno.EIO)
    await broker.call(delete_topic("t"), 5)
    assert broker.node.failed.is_set(), "the story needs a process that ends inside the deletion"
    disk.heal()
    again = await restarted(broker, disk, rules=rules)
    await again.call(create_topic("t"), 7)
    await produced(again, b"of the new topic")
    found = values_of(await again.call(fetch("t"), 12))
    await again.node.stop()
    return [f"K12: nobody sent {value!r} to this topic" for value in found if value != b"of the new topic"]


def test_r22_a_new_topic_never_shows_the_bytes_of_an_old_one() -> None:
    assert run(a_deletion_is_interrupted_and_the_topic_made_again(ALL_ON)) == []
    assert run(a_deletion_is_interrupted_and_the_topic_made_again(ALL_ON.without("r22_topic_id_before_first_byte")))


@pytest.mark.covers("C3")
def test_r22_the_id_of_a_deleted_topic_is_unknown_for_ever() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        old = topic_id(broker)
        assert (await produced(broker, b"old", old)).error_code == 0
        await broker.call(delete_topic("t"), 5)
        await broker.call(create_topic("t"), 7)
        for life in range(2):
            if life:
                broker = await restarted(broker, disk)
            new = topic_id(broker)
            assert new not in (old, ZERO_UUID)
            assert (await produced(broker, b"stale", old)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert (await fetched_by_id(broker, old)).error_code == ErrorCode.UNKNOWN_TOPIC_ID
            assert not (await fetched_by_id(broker, new)).error_code
            assert not (await fetched_by_id(broker, new)).records
        assert (await produced(broker, b"new", new)).base_offset == 0
        await broker.node.stop()

    asyncio.run(scenario())


def topic_id(broker: MemoryBroker) -> bytes:
    topic = broker.node.image.topic_named("t")
    assert topic is not None
    return topic.topic_id


async def fetched_by_id(broker: MemoryBroker, identifier: bytes) -> Any:
    asked = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(
        topics=[FetchTopic(topic_id=identifier, partitions=[asked])], max_bytes=1 << 20, session_epoch=-1
    )
    return (await broker.call(request, 13)).responses[0].partitions[0]
