"""A full disk refuses records and nothing else, a failed one ends the process, neither loses what was promised (R10).

The simulated disk fills up to the byte, so that over the seeds every kind of write is the one that meets its end.
"""

import asyncio
import errno
import random
from typing import Any

import pytest

from hightide.errors import ErrorCode
from hightide.rules import ALL_ON
from hightide.sim.disk import SimulatedDisk
from hightide.storage.space import Condition
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, delete_topic, fetch, produce, set_topic_config, values_of

SEEDS = range(32)
REFUSALS = 3


async def produced(broker: MemoryBroker, value: bytes, topic: str = "t", **options: Any) -> ErrorCode:
    answer = await broker.call(produce(topic, [value], **options), 9)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


async def fill(broker: MemoryBroker, size: int = 500) -> list[bytes]:
    """Produce until the disk is full; the values that were acknowledged."""
    acknowledged: list[bytes] = []
    while True:
        value = b"%06d" % len(acknowledged) + bytes(size)
        code = await produced(broker, value)
        if code:
            assert code is ErrorCode.KAFKA_STORAGE_ERROR
            return acknowledged
        acknowledged.append(value)


async def full_broker(disk: SimulatedDisk, room: int = 4000) -> tuple[MemoryBroker, list[bytes]]:
    broker = await MemoryBroker(disk).start()
    await broker.call(create_topic("t"), 7)
    disk.capacity = disk.used_bytes() + room
    return broker, await fill(broker)


def make_room(broker: MemoryBroker, disk: SimulatedDisk) -> None:
    disk.capacity = None
    broker.node.directory.space.check()  # housekeeping does it every second


async def after_power_loss(broker: MemoryBroker, disk: SimulatedDisk, seed: int = 0) -> MemoryBroker:
    broker.die()
    disk.heal()
    disk.power_loss(random.Random(f"{seed}:power"))
    return await MemoryBroker(disk, seed=seed + 1000).start()


def test_a_full_disk_refuses_records_and_serves_readers() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker, acknowledged = await full_broker(disk)
        assert acknowledged
        assert broker.node.directory.space.condition is Condition.READ_ONLY
        assert values_of(await broker.call(fetch("t"), 12)) == acknowledged
        assert await produced(broker, b"again") is ErrorCode.KAFKA_STORAGE_ERROR
        assert await produced(broker, b"once", acks=1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert not broker.node.failed.is_set()
        make_room(broker, disk)
        assert await produced(broker, b"after") is ErrorCode.NONE
        again = await after_power_loss(broker, disk)
        assert values_of(await again.call(fetch("t"), 12)) == [*acknowledged, b"after"]
        await again.node.stop()

    asyncio.run(scenario())


def test_records_are_refused_before_the_disk_is_full() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        assert await produced(broker, b"a") is ErrorCode.NONE
        disk.capacity = disk.used_bytes() + 60_000  # less than the 64 KiB that this world asks for
        broker.node.directory.space.check()
        assert await produced(broker, b"b") is ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(await broker.call(fetch("t"), 12)) == [b"a"]
        make_room(broker, disk)
        assert await produced(broker, b"c") is ErrorCode.NONE
        await broker.node.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("first", ["a record", "the metadata log"])
def test_a_full_disk_is_logged_once_whoever_meets_it(first: str, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        disk.capacity = disk.used_bytes()
        if first == "the metadata log":
            assert (await broker.call(create_topic("u"), 7)).topics[0].error_code == 0
        assert await produced(broker, b"a") is ErrorCode.KAFKA_STORAGE_ERROR
        assert await produced(broker, b"b") is ErrorCode.KAFKA_STORAGE_ERROR
        make_room(broker, disk)
        await broker.node.stop()

    asyncio.run(scenario())
    told = [record.getMessage() for record in caplog.records if "the log directory is" in record.getMessage()]
    assert len(told) == 2
    assert "read-only" in told[0]
    assert "records are refused" in told[0]
    assert told[1] == "the log directory is online: there is room again"


def test_a_start_on_a_full_disk_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker, _ = await full_broker(disk)
        broker.die()
        caplog.clear()
        again = await MemoryBroker(disk, seed=1000).start()
        assert "the log directory is read-only" in caplog.text
        await again.node.stop()

    asyncio.run(scenario())


def test_deleting_a_topic_makes_room() -> None:
    """The metadata log may use the reserve: an operator can always act."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("keep"), 7)
        await broker.call(create_topic("t"), 7)
        assert await produced(broker, b"kept", "keep") is ErrorCode.NONE
        disk.capacity = disk.used_bytes() + 200_000
        await fill(broker, size=10_000)
        answer = await broker.call(delete_topic("t"), 5)
        assert answer.responses[0].error_code == 0
        while any(name.endswith("-delete") for name in disk.list("/data")):  # its files go beside everything else
            await asyncio.sleep(0)
        broker.node.directory.space.check()
        assert await produced(broker, b"more", "keep") is ErrorCode.NONE
        assert values_of(await broker.call(fetch("keep"), 12)) == [b"kept", b"more"]
        await broker.node.stop()

    asyncio.run(scenario())


def test_a_broker_starts_and_serves_readers_on_a_full_disk() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker, acknowledged = await full_broker(disk)
        again = await after_power_loss(broker, disk)
        assert values_of(await again.call(fetch("t"), 12)) == acknowledged
        assert await produced(again, b"still full" + bytes(500)) is ErrorCode.KAFKA_STORAGE_ERROR
        make_room(again, disk)
        assert await produced(again, b"after") is ErrorCode.NONE
        await again.node.stop()

    asyncio.run(scenario())


class Life:
    """A broker on a disk that is about to be full, and what it promised."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(f"{seed}:full")
        self.disk = SimulatedDisk()
        self.broker = MemoryBroker(self.disk, seed=seed)
        self.acknowledged: list[bytes] = []
        self.topics = ["t"]
        self.refused = 0

    async def run(self) -> None:
        """Do things until records were refused several times; everything but them must go on."""
        await self.broker.start()
        await self.broker.call(create_topic("t"), 7)
        self.disk.capacity = self.disk.used_bytes() + self.random.randrange(50, 6000)
        actions = [self.produce, self.produce, self.produce, self.create, self.alter, self.checkpoint]
        while self.refused < REFUSALS:
            await self.random.choice(actions)()

    async def produce(self) -> None:
        value = b"%06d" % len(self.acknowledged) + bytes(self.random.choice((10, 200, 900)))
        code = await produced(self.broker, value)
        if code is ErrorCode.NONE:
            self.acknowledged.append(value)
        else:
            assert code is ErrorCode.KAFKA_STORAGE_ERROR
            self.refused += 1

    async def create(self) -> None:
        name = f"t{len(self.topics)}"
        answer = await self.broker.call(create_topic(name), 7)
        assert answer.topics[0].error_code == 0
        self.topics.append(name)

    async def alter(self) -> None:
        changed = set_topic_config("t", "retention.bytes", str(self.random.randrange(10**6, 10**9)))
        answer = await self.broker.call(changed, 1)
        assert answer.responses[0].error_code == 0

    async def checkpoint(self) -> None:
        await asyncio.wait_for(self.broker.node.checkpoints.write(), 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_write_meets_the_end_of_the_disk_only_records_are_refused(seed: int) -> None:
    async def scenario() -> None:
        life = Life(seed)
        await life.run()
        node = life.broker.node
        assert not node.failed.is_set()
        assert node.stats.unexpected_errors == 0
        assert values_of(await life.broker.call(fetch("t"), 12)) == life.acknowledged
        again = await after_power_loss(life.broker, life.disk, seed)
        assert values_of(await again.call(fetch("t"), 12)) == life.acknowledged
        assert all(again.node.image.topic_named(name) for name in life.topics)
        make_room(again, life.disk)
        assert await produced(again, b"after") is ErrorCode.NONE
        await again.node.stop()

    asyncio.run(scenario())


def test_a_partition_that_may_not_open_its_files_is_offline_alone() -> None:
    """A process has only so many descriptors: whoever makes one partition too many must not end the broker."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        disk.fail("create", "/data/u-0/*.log", code=errno.EMFILE, times=-1)
        request = create_topic("u", partitions=2)
        request.timeout_ms = 100  # one of them will not be ready
        await broker.call(request, 7)
        assert await produced(broker, b"none", "u") in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert await produced(broker, b"one", "u", partition=1) is ErrorCode.NONE
        assert await produced(broker, b"other", "t") is ErrorCode.NONE
        assert not broker.node.failed.is_set()
        disk.heal()
        broker.node.assignments.open_unready()
        async with asyncio.timeout(10):
            while await produced(broker, b"now it may", "u") is not ErrorCode.NONE:
                await asyncio.sleep(0)
        await broker.node.stop()

    asyncio.run(scenario())


def test_a_read_that_may_open_no_file_says_nothing_about_the_bytes() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        assert await produced(broker, b"kept") is ErrorCode.NONE
        disk.fail("read", "/data/t-0/*", code=errno.EMFILE)
        refused = (await broker.call(fetch("t"), 12)).responses[0].partitions[0]
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert values_of(await broker.call(fetch("t"), 12)) == [b"kept"]
        await broker.node.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("pattern", ["/data/t-0/*[1-9].log", "/data/t-0/*.index", "/data/t-0/*.snapshot*"])
def test_a_segment_that_may_not_be_opened_refuses_records_until_it_may(pattern: str) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", segment_bytes="1048576"), 7)
        values = [b"%d" % number + bytes(400_000) for number in range(3)]
        for value in values[:2]:
            assert await produced(broker, value) is ErrorCode.NONE
        disk.fail("create", pattern, code=errno.EMFILE, times=2)
        for _ in range(2):
            assert await produced(broker, values[2]) is ErrorCode.KAFKA_STORAGE_ERROR
        assert not broker.node.failed.is_set()
        assert await produced(broker, values[2]) is ErrorCode.NONE
        again = await after_power_loss(broker, disk)
        found: list[bytes | None] = []
        while len(found) < len(values):
            found += values_of(await again.call(fetch("t", len(found)), 12))
        assert found == values
        await again.node.stop()

    asyncio.run(scenario())


def test_checkpoints_wait_for_a_descriptor() -> None:
    """And nothing is deleted whose new start could not be noted down: after a crash that would look like a gap."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", retention_ms="1", file_delete_delay_ms="0"), 7)
        assert await produced(broker, b"of long ago") is ErrorCode.NONE
        segments = [path for path in disk.image() if path.startswith("data/t-0/") and path.endswith(".log")]
        disk.fail("create", "/data/*-checkpoint.tmp", code=errno.EMFILE, times=-1)
        await broker.node.housekeeping.retain()
        assert not broker.node.failed.is_set()
        assert set(segments) <= set(disk.image())
        disk.heal()
        await broker.node.housekeeping.retain()
        assert not set(segments) & set(disk.image())
        await broker.node.stop()

    asyncio.run(scenario())


def test_the_metadata_log_keeps_what_no_checkpoint_let_go() -> None:
    """The same for the segments that a snapshot makes superfluous: a start that finds a gap does not come up."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(
            disk, metadata_log_max_record_bytes_between_snapshots="700", metadata_max_retention_bytes="1"
        ).start()
        await broker.call(create_topic("t"), 7)
        disk.fail("create", "/data/log-start-offset-checkpoint.tmp", code=errno.EMFILE, times=-1)
        for value in range(30):
            answer = await broker.call(set_topic_config("t", "retention.ms", str(1_000_000 + value)), 1)
            assert answer.responses[0].error_code == 0
        async with asyncio.timeout(10):
            while not broker.node.metadata.snapshots.is_idle:
                await asyncio.sleep(0)
        assert broker.node.metadata.snapshots.store.snapshots, "the story needs snapshots"
        assert "data/__cluster_metadata-0/00000000000000000000.log" in disk.image()
        again = await after_power_loss(broker, disk)
        assert again.node.image.topic_named("t") is not None
        await again.node.stop()

    asyncio.run(scenario())


def test_a_topic_on_a_failing_disk_leaves_nobody_waiting() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        disk.fail("create", "/data/u-0/*.log", code=errno.EIO)
        broker.send(create_topic("u"), 7)
        await asyncio.wait_for(broker.connection.replies.get(), 10)
        assert broker.node.failed.is_set()
        assert broker.node.stats.unexpected_errors == 0

    asyncio.run(scenario())


def test_retention_makes_room_on_a_full_disk() -> None:
    """Its own files may use the reserve: the segment that goes is sealed first."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", retention_ms="1", file_delete_delay_ms="0"), 7)
        disk.capacity = disk.used_bytes() + 150_000
        await fill(broker, size=10_000)  # with timestamps of long ago
        await broker.node.housekeeping.retain()
        broker.node.directory.space.check()
        assert await produced(broker, b"after") is ErrorCode.NONE
        assert values_of(await broker.call(fetch("t", broker.node.partition("t", 0).log.start), 12)) == [b"after"]
        await broker.node.stop()

    asyncio.run(scenario())


def test_a_disk_that_can_not_give_up_its_reserve_ends_the_process() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        disk.fail("truncate", "/data/reserve", code=errno.EIO)
        broker, _ = await full_broker(disk)
        assert broker.node.directory.space.condition is Condition.OFFLINE
        broker.node.housekeeping.look_at_space()
        assert broker.node.failed.is_set()
        broker.die()

    asyncio.run(scenario())


def test_a_failed_sync_is_answered_and_ends_the_process() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", partitions=2), 7)
        assert await produced(broker, b"good") is ErrorCode.NONE
        disk.fail("sync", "/data/t-0/*.log", code=errno.EIO)
        assert await produced(broker, b"lost") is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.node.failed.is_set()
        for partition in range(2):
            assert await produced(broker, b"late", partition=partition) is ErrorCode.KAFKA_STORAGE_ERROR
            assert await produced(broker, b"late", partition=partition, acks=1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.node.stats.unexpected_errors == 0
        again = await after_power_loss(broker, disk)
        found = values_of(await again.call(fetch("t"), 12))
        assert found[0] == b"good"
        assert b"late" not in found
        await again.node.stop()

    asyncio.run(scenario())


def test_commands_are_not_acknowledged_after_a_failed_sync() -> None:
    """Who waited for the metadata log when the disk failed is not left waiting, and is not told that it worked."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        disk.fail("sync", "/data/__cluster_metadata-0/*.log", code=errno.EIO)
        for name in ("u", "v"):
            broker.connection = broker.world.network.client()
            broker.send(create_topic(name), 7)
            assert await asyncio.wait_for(broker.connection.replies.get(), 10) is None, "answered as if it had worked"
        assert broker.node.failed.is_set()
        assert broker.node.stats.unexpected_errors == 0

    asyncio.run(scenario())


def test_a_failed_write_ends_the_process() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t"), 7)
        assert await produced(broker, b"good") is ErrorCode.NONE
        disk.fail("write", "/data/t-0/*.log", code=errno.EIO, keep=20)
        assert await produced(broker, b"bad") is ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.node.failed.is_set()
        assert await produced(broker, b"late") is ErrorCode.KAFKA_STORAGE_ERROR
        again = await after_power_loss(broker, disk)
        assert values_of(await again.call(fetch("t"), 12)) == [b"good"]
        await again.node.stop()

    asyncio.run(scenario())


@pytest.mark.parametrize("wait_ms", [0, 30_000])
def test_a_failed_read_is_answered(wait_ms: int) -> None:
    """Bytes that can't be read close their partition: a reader hears of it, whether it waited or not."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", partitions=2), 7)
        disk.fail("read", "/data/t-0/*.log", code=errno.EIO)
        if wait_ms:
            reader = broker.connection
            broker.send(fetch("t", max_wait_ms=wait_ms), 12)
            broker.connection = broker.world.network.client()
            assert await produced(broker, b"unreadable") is ErrorCode.NONE
            broker.connection = reader
            answer = await broker.receive(1, 12)
        else:
            assert await produced(broker, b"unreadable") is ErrorCode.NONE
            answer = await broker.call(fetch("t"), 12)
        assert answer.responses[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.node.stats.unexpected_errors == 0
        assert await produced(broker, b"good", partition=1) is ErrorCode.NONE
        assert values_of(await broker.call(fetch("t", partition=1), 12)) == [b"good"]
        broker.die()

    asyncio.run(scenario())


def test_without_the_rule_the_next_sync_would_be_believed() -> None:
    """R10 off: after a failed sync the next one succeeds, having written nothing: the record is lost."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk, rules=ALL_ON.without("r10_offline_on_failed_sync")).start()
        await broker.call(create_topic("t"), 7)
        disk.fail("sync", "/data/t-0/*.log", code=errno.EIO)
        assert await produced(broker, b"lost") is ErrorCode.NONE
        again = await after_power_loss(broker, disk)
        assert values_of(await again.call(fetch("t"), 12)) != [b"lost"]
        await again.node.stop()

    asyncio.run(scenario())
