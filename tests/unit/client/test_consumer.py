"""Reading ranges: order, ends, markers, moved leaders, lost offsets."""

from contextlib import aclosing

import pytest

from hightide.client.consumer import ConsumedRecord, Consumer, Range
from hightide.client.fetch import Aborted, FetchedPartition, visible_batches
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.batches import build_batch
from hightide.wire.messages.fetch import FetchRequest
from hightide.wire.messages.metadata import MetadataRequest
from hightide.wire.records import ControlType, Record, control_key
from tests.unit.client.memory_cluster import MemoryCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fill(memory: MemoryCluster, where: TopicPartition, *sizes: int) -> None:
    """Batches of that many records, numbered by their offsets."""
    for size in sizes:
        base = memory.ends[where]
        records = [Record(base + index, 1, None, b"%d" % (base + index)) for index in range(size)]
        memory.logs[where].append(build_batch(records, base_offset=base, leader_epoch=1))
        memory.ends[where] = base + size


async def read(memory: MemoryCluster, ranges: dict[TopicPartition, Range]) -> list[ConsumedRecord]:
    return [record async for records in Consumer(memory.client(), ranges).batches() for record in records]


def test_a_range_is_read_to_its_end_in_order() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 3, 4, 5, 1)
    assert [record.offset for record in memory.run(read(memory, {T0: Range(0, 13)}))] == list(range(13))


def test_a_range_may_begin_and_end_inside_batches() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 5, 5, 5)
    assert [record.offset for record in memory.run(read(memory, {T0: Range(3, 12)}))] == list(range(3, 12))


def test_an_empty_range_asks_nobody() -> None:
    memory = MemoryCluster(topics={"t": 1})
    assert memory.run(read(memory, {T0: Range(4, 4)})) == []
    assert memory.seen == []


@pytest.mark.covers("N10")
def test_partitions_of_several_leaders_each_in_order() -> None:
    memory = MemoryCluster(brokers=2, topics={"t": 2})
    fill(memory, T0, 4, 4, 4)
    fill(memory, T1, 2, 2)
    records = memory.run(read(memory, {T0: Range(0, 12), T1: Range(0, 4)}))
    assert [record.offset for record in records if record.partition == 0] == list(range(12))
    assert [record.offset for record in records if record.partition == 1] == list(range(4))


def test_a_range_without_an_end_goes_on() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 2)

    async def work() -> list[int]:
        offsets = []
        async with aclosing(Consumer(memory.client(), {T0: Range(0)}).batches()) as batches:
            async for records in batches:
                offsets += [record.offset for record in records]
                if len(offsets) == 5:
                    break
                fill(memory, T0, 3)
        return offsets

    assert memory.run(work()) == [0, 1, 2, 3, 4]


@pytest.mark.covers("C26")
def test_a_leader_that_moved_is_followed() -> None:
    memory = MemoryCluster(brokers=2, topics={"t": 1})
    fill(memory, T0, 2, 2, 2)

    async def work() -> list[int]:
        offsets = []
        async for records in Consumer(memory.client(), {T0: Range(0, 6)}).batches():
            offsets += [record.offset for record in records]
            if offsets[-1] == 3:
                memory.leaders[T0] = 2
                memory.fail(FetchRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return offsets

    assert memory.run(work()) == list(range(6))
    assert [broker for broker, request in memory.seen if isinstance(request, FetchRequest)] == [1, 1, 2]
    assert len(memory.requests(MetadataRequest)) == 2


@pytest.mark.covers("C34")
def test_an_offset_that_retention_removed_moves_to_the_start() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 4, 4)
    memory.starts[T0] = 4
    assert [record.offset for record in memory.run(read(memory, {T0: Range(0, 8)}))] == [4, 5, 6, 7]


@pytest.mark.covers("C34")
def test_a_range_that_retention_removed_is_over() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 4, 4)
    memory.starts[T0] = 4
    assert memory.run(read(memory, {T0: Range(0, 3)})) == []


@pytest.mark.covers("C34")
def test_an_offset_beyond_the_end_is_an_error() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 4)
    with pytest.raises(ApiError, match="t-0 has offsets 0 to 4, not 9"):
        memory.run(read(memory, {T0: Range(9)}))


def test_errors_that_last_are_raised_in_the_end() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 1)
    memory.fail(FetchRequest, *[ErrorCode.KAFKA_STORAGE_ERROR] * 1000)
    before = memory.clock.now()
    with pytest.raises(ApiError, match="KAFKA_STORAGE_ERROR"):
        memory.run(read(memory, {T0: Range(0, 1)}))
    assert memory.clock.now() - before >= 10.0


def test_a_lost_connection_is_opened_again() -> None:
    memory = MemoryCluster(topics={"t": 1})
    fill(memory, T0, 2, 2, 2)

    async def work() -> list[int]:
        offsets = []
        async for records in Consumer(memory.client(), {T0: Range(0, 6)}).batches():
            offsets += [record.offset for record in records]
            for connection in memory.connections:
                connection.close()
        return offsets

    assert memory.run(work()) == list(range(6))


def batch(
    base: int, *, producer_id: int = -1, control: ControlType | None = None, transactional: bool = True
) -> bytearray:
    key = None if control is None else control_key(control)
    return build_batch(
        [Record(base, 1, key, b"v")],
        base_offset=base,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
        control=control is not None,
    )


def seen(batches: list[bytearray], aborted: list[Aborted]) -> list[int]:
    fetched = FetchedPartition(T0, ErrorCode.NONE, 100, 100, 0, b"".join(batches), aborted)
    return [header.base_offset for _, header, visible in visible_batches(fetched) if visible]


@pytest.mark.covers("C35")
def test_aborted_transactions_are_not_seen() -> None:
    batches = [
        batch(0, producer_id=1),
        batch(1, producer_id=2),
        batch(2, producer_id=1),
        batch(3, producer_id=1, control=ControlType.ABORT),
        batch(4, producer_id=2, control=ControlType.COMMIT),
        batch(5, producer_id=1),
        batch(6, producer_id=1, control=ControlType.COMMIT),
        batch(7, producer_id=1, transactional=False),
    ]
    assert seen(batches, [Aborted(0, 1)]) == [1, 5, 7]
    assert seen(batches, []) == [0, 1, 2, 5, 7]


def test_a_batch_cut_short_is_left_for_the_next_fetch() -> None:
    assert seen([batch(0), batch(1)[:-1]], []) == [0]


def test_a_flipped_bit_is_noticed() -> None:
    damaged = batch(3)
    damaged[-1] ^= 1
    with pytest.raises(ApiError, match="t-0, offset 3"):
        seen([damaged], [])
