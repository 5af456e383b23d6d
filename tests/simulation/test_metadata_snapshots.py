"""A node takes snapshots of its metadata, lets its log go, starts from them, and may die at any point of that."""

import asyncio
import errno
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from hightide.errors import CorruptionError, ErrorCode
from hightide.limits import SNAPSHOT_BATCH_RECORDS
from hightide.metadata.entities import ResourceType
from hightide.metadata.image import Image
from hightide.metadata.snapshot import snapshot_batches
from hightide.node.handlers import fetch_snapshot
from hightide.node.metadata_snapshots import planned_start
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.storage.metadata_snapshots import StoredSnapshot, parse_name
from hightide.types import METADATA_TOPIC
from hightide.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
)
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, delete_topic, set_topic_config

LOG = "/data/__cluster_metadata-0"
RETENTION = "retention.ms"


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def broker_on(disk: SimulatedDisk, seed: int = 0, *, rules: Rules = ALL_ON, retention_bytes: int = 1) -> MemoryBroker:
    """A node that takes a snapshot every few changes."""
    return MemoryBroker(
        disk,
        seed=seed,
        rules=rules,
        metadata_log_max_record_bytes_between_snapshots="700",
        metadata_max_retention_bytes=str(retention_bytes),
    )


async def change(broker: MemoryBroker, value: int) -> None:
    """Change a setting, which is a batch of some hundred bytes in the metadata log."""
    answer = await broker.call(set_topic_config("t", RETENTION, str(value)), 1)
    assert answer.responses[0].error_code == 0


async def settled(broker: MemoryBroker) -> None:
    """Let a snapshot that is being taken come to its end."""
    for _ in range(10_000):
        if broker.node.metadata.snapshots.is_idle:
            return
        await asyncio.sleep(0)
    raise AssertionError("a snapshot is taken for ever")


def ends(broker: MemoryBroker) -> list[int]:
    return [snapshot.end for snapshot in broker.node.metadata.snapshots.store.snapshots]


def snapshots_on(disk: SimulatedDisk) -> list[str]:
    return [name for name in disk.list(LOG) if parse_name(name) is not None]


def check_start(broker: MemoryBroker) -> None:
    """I17."""
    start = broker.node.metadata.log.start
    assert start == 0 or start in ends(broker)


def of_clients(image: Image) -> tuple[object, ...]:
    """What clients agreed upon; a start adds a registration and new leader epochs."""
    topics = {topic.name: (topic.topic_id, len(topic.partitions)) for topic in image.topics.values()}
    return topics, dict(image.configs), image.features, image.next_producer_id


@pytest.mark.covers("T19")
def test_the_log_is_let_go_below_the_newest_snapshot() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await broker_on(disk).start()
        await broker.call(create_topic("t", partitions=2), 7)
        size = 0
        for value in range(60):
            await change(broker, 1_000_000 + value)
            size = max(size, broker.node.metadata.log.size_bytes)
        await settled(broker)
        metadata = broker.node.metadata
        assert metadata.log.start > 0
        assert [metadata.log.start] == ends(broker)
        assert size < 4000, "the log grew all the same"
        assert len(snapshots_on(disk)) == 1
        check_start(broker)
        assert metadata.quorum.machine.snapshot == (ends(broker)[0], metadata.quorum.machine.epoch)
        await broker.node.stop()

    run(scenario())


def test_nothing_is_taken_below_the_threshold() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", partitions=2), 7)
        for value in range(20):
            await change(broker, 1_000_000 + value)
        assert ends(broker) == []
        await broker.node.stop()
        assert snapshots_on(disk) == []

    run(scenario())


def test_time_takes_a_snapshot_too_but_only_of_something_new() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk, metadata_log_max_snapshot_interval_ms="10").start()
        await broker.call(create_topic("t"), 7)
        async with asyncio.timeout(10):
            while not ends(broker):
                await asyncio.sleep(0.001)
        first = ends(broker)
        for _ in range(5):
            broker.node.metadata.snapshots.consider()
            await asyncio.sleep(0)
        await settled(broker)
        assert ends(broker) in (first, [*first, broker.node.image.offset + 1])
        assert broker.node.metadata.log.start == 0, "the log is small and young: it stays"
        await broker.node.stop()

    run(scenario())


@pytest.mark.parametrize("way", ["stop", "kill", "power loss"])
def test_a_start_begins_with_the_snapshot(way: str) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await broker_on(disk).start()
        await broker.call(create_topic("t", partitions=3), 7)
        for name in ("gone", "kept"):
            await broker.call(create_topic(name), 7)
        await broker.call(delete_topic("gone"), 5)
        for value in range(20):
            await change(broker, 1_000_000 + value)
        await settled(broker)
        before, start = of_clients(broker.node.image), broker.node.metadata.log.start
        assert start > 0
        if way == "stop":
            await broker.node.stop()
        else:
            broker.die()
        if way == "power loss":
            disk.power_loss(1)
        else:
            disk.kill()
        again = await broker_on(disk, 1).start()
        assert of_clients(again.node.image) == before
        assert again.node.metadata.log.start >= start
        check_start(again)
        await change(again, 7_000_000)
        await again.node.stop()

    run(scenario())


class Told:
    """What a client was told: the last value it set. And what it may have seen: where the log began."""

    def __init__(self) -> None:
        self.value = 0
        self.starts: set[int] = set()
        self.is_gone = False


async def life(disk: SimulatedDisk, told: Told, rules: Rules, crash_at: int = 0) -> int:
    """Changes until snapshots were taken and the log was cut twice; the operations it took, 0 when it died."""
    died = asyncio.Event()
    disk.on_crash = died.set
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # a dead process reports nothing
    broker = await broker_on(disk, rules=rules).start()
    await broker.call(create_topic("t", partitions=2), 7)
    before = disk.operations
    if crash_at:
        disk.crash_at(crash_at)
    acting = asyncio.ensure_future(changes(broker, told))
    dying = asyncio.ensure_future(died.wait())
    await asyncio.wait({acting, dying}, return_when=asyncio.FIRST_COMPLETED)
    dying.cancel()
    broker.die()
    told.is_gone = True  # a cancellation can be lost in an answer that came at the same moment
    acting.cancel()
    await asyncio.wait({acting})
    return 0 if died.is_set() else disk.operations - before


async def changes(broker: MemoryBroker, told: Told) -> None:
    """Until the log began at two places above 0."""
    while not told.is_gone and (len(told.starts) < 3 or not broker.node.metadata.snapshots.is_idle):
        await change(broker, told.value + 1)
        told.value += 1
        told.starts.add(broker.node.metadata.log.start)


async def value_after(disk: SimulatedDisk, seed: int) -> int:
    """What the next life thinks that the setting is."""
    again = await broker_on(disk, seed).start()
    check_start(again)
    value = int(again.node.image.settings_of(ResourceType.TOPIC, "t").get(RETENTION, 0))
    await change(again, 7_000_000)
    assert again.node.stats.unexpected_errors == 0
    await again.node.stop()
    disk.kill()
    last = await broker_on(disk, seed + 1).start()
    assert last.node.image.settings_of(ResourceType.TOPIC, "t")[RETENTION] == "7000000"
    await last.node.stop()
    return value


def test_a_crash_at_every_operation_of_taking_snapshots() -> None:
    count = asyncio.run(life(SimulatedDisk(), Told(), ALL_ON))
    assert count > 80
    for operation in range(1, count, 2):
        rng = random.Random(operation)
        disk, told = SimulatedDisk(), Told()
        asyncio.run(life(disk, told, ALL_ON, operation))
        disk.crash_at(0)
        if rng.random() < 0.4:
            disk.kill()
        else:
            disk.power_loss(rng)
        assert asyncio.run(value_after(disk, operation)) in (told.value, told.value + 1), f"operation {operation}"


def test_without_rule_18_the_metadata_can_be_lost() -> None:
    """A snapshot that was only written, and a log that was let go for it."""
    rules = ALL_ON.without("r18_atomic_checkpoints")
    refused = 0
    for seed in range(12):
        disk, told = SimulatedDisk(), Told()
        asyncio.run(life(disk, told, rules))
        disk.power_loss(seed)
        try:
            asyncio.run(value_after(disk, seed))
        except CorruptionError:
            refused += 1
    assert refused


async def live_once(disk: SimulatedDisk, *, retention_bytes: int = 1) -> None:
    """A node takes snapshots and stops."""
    broker = await broker_on(disk, retention_bytes=retention_bytes).start()
    await broker.call(create_topic("t"), 7)
    for value in range(25):
        await change(broker, 1_000_000 + value)
    await settled(broker)
    await broker.node.stop()
    disk.kill()


def test_a_damaged_snapshot_stops_the_start_by_name() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        await live_once(disk)
        (name,) = snapshots_on(disk)
        disk.flip(f"{LOG}/{name}", 150)
        with pytest.raises(CorruptionError, match=name):
            await broker_on(disk, 1).start()
        assert snapshots_on(disk) == [name]

    run(scenario())


def test_a_damaged_snapshot_is_passed_over_while_the_log_is_whole() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        await live_once(disk, retention_bytes=-1)
        names = snapshots_on(disk)
        assert len(names) > 1
        disk.flip(f"{LOG}/{names[-1]}", 150)
        again = await MemoryBroker(disk, seed=1, metadata_max_retention_bytes="-1").start()
        assert again.node.image.settings_of(ResourceType.TOPIC, "t")[RETENTION] == "1000024"
        assert len(ends(again)) == len(names) - 1
        await again.node.stop()

    run(scenario())


def test_a_full_disk_has_no_room_for_a_snapshot_and_nothing_else_happens() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await broker_on(disk).start()
        await broker.call(create_topic("t"), 7)
        fault = disk.fail("write", "*.part", code=errno.ENOSPC, times=-1)
        for value in range(20):
            await change(broker, 1_000_000 + value)
        await settled(broker)
        assert ends(broker) == []
        assert not [name for name in disk.list(LOG) if name.endswith(".part")]
        assert not broker.node.failed.is_set()
        assert fault.times < 0
        disk.heal()
        broker.node.metadata.snapshots._not_before = 0.0
        await change(broker, 2_000_000)
        await settled(broker)
        assert len(ends(broker)) == 1
        await broker.node.stop()

    run(scenario())


def test_a_failed_sync_of_a_snapshot_ends_the_process() -> None:
    """R10: as any other."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await broker_on(disk).start()
        await broker.call(create_topic("t"), 7)
        disk.fail("sync", "*.part")
        changing = asyncio.ensure_future(changes(broker, Told()))
        async with asyncio.timeout(20):
            await broker.node.failed.wait()
        changing.cancel()
        await asyncio.wait({changing})
        assert ends(broker) == []
        broker.die()

    run(scenario())


def test_a_snapshot_is_taken_in_short_steps() -> None:
    """Between two of them the loop does whatever else there is."""

    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t", partitions=400), 7)
        batches = list(snapshot_batches(broker.node.image))
        assert max(len(values) for values in batches) <= SNAPSHOT_BATCH_RECORDS
        assert len(batches) >= 400 // SNAPSHOT_BATCH_RECORDS
        snapshots = broker.node.metadata.snapshots
        snapshots._is_due = True
        snapshots.consider()
        turns = 0
        while not snapshots.is_idle:
            await asyncio.sleep(0)
            turns += 1
        assert turns > len(batches)
        assert len(ends(broker)) == 1
        await broker.node.stop()

    run(scenario())


# ---------------------------------------------------------------------- how much stays


def stored(end: int, size: int = 100, timestamp: int = 0) -> StoredSnapshot:
    return StoredSnapshot(end, 1, size, timestamp)


def planned(
    snapshots: list[StoredSnapshot],
    *,
    start: int = 0,
    oldest_ms: int = -1,
    bytes_max: int | None = None,
    needed: int | None = None,
) -> int:
    """In a log with a byte per offset up to 1000, in segments of a byte."""
    return planned_start(
        start, snapshots, lambda at: 1000 - at, oldest_ms=oldest_ms, bytes_max=bytes_max, needed=needed
    )


SNAPSHOTS = [stored(200, timestamp=10), stored(400, timestamp=20), stored(600, timestamp=30)]


def test_everything_stays_without_limits() -> None:
    assert planned(SNAPSHOTS) == 0
    assert planned([]) == 0
    assert planned([], bytes_max=1) == 0


@pytest.mark.parametrize(
    ("bytes_max", "start"), [(1300, 0), (1299, 200), (1100, 200), (1099, 400), (800, 400), (799, 600), (0, 600)]
)
def test_the_log_starts_where_the_rest_is_small_enough(bytes_max: int, start: int) -> None:
    assert planned(SNAPSHOTS, bytes_max=bytes_max) == start


@pytest.mark.parametrize(("oldest_ms", "start"), [(10, 0), (11, 200), (21, 400), (1000, 600)])
def test_records_stay_until_they_are_old(oldest_ms: int, start: int) -> None:
    assert planned(SNAPSHOTS, oldest_ms=oldest_ms) == start


def test_a_start_never_goes_back() -> None:
    assert planned(SNAPSHOTS, start=400) == 400
    assert planned(SNAPSHOTS, start=400, oldest_ms=1000) == 600


def test_what_somebody_is_loading_stays_with_all_that_follows() -> None:
    assert planned(SNAPSHOTS, bytes_max=0, needed=400) == 400
    assert planned(SNAPSHOTS, bytes_max=0, needed=200) == 200


# ---------------------------------------------------------------------- serving


async def fetched(
    broker: MemoryBroker,
    *,
    end: int | None = None,
    epoch: int | None = None,
    position: int = 0,
    leader_epoch: int | None = None,
    max_bytes: int = 1 << 20,
    topic: str = METADATA_TOPIC,
    partition: int = 0,
    cluster_id: str | None = None,
) -> FetchSnapshotResponse:
    """FetchSnapshot, of the newest snapshot and as it should be where nothing else is told."""
    metadata = broker.node.metadata
    newest = metadata.snapshots.store.newest
    assert newest is not None
    part = FetchSnapshotRequestPartitionSnapshot(
        partition=partition,
        current_leader_epoch=metadata.quorum.machine.epoch if leader_epoch is None else leader_epoch,
        snapshot_id=FetchSnapshotRequestSnapshotId(
            end_offset=newest.end if end is None else end, epoch=newest.epoch if epoch is None else epoch
        ),
        position=position,
    )
    message = FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=5,
        max_bytes=max_bytes,
        topics=[FetchSnapshotRequestTopicSnapshot(name=topic, partitions=[part])],
    )
    request: Any = None  # the handler does not look at it
    return await fetch_snapshot.handle(broker.node, message, request)


def test_pieces_of_a_snapshot_make_the_file() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        await live_once(disk)
        broker = await MemoryBroker(disk, seed=1).start()
        newest = broker.node.metadata.snapshots.store.newest
        assert newest is not None
        data = b""
        while len(data) < newest.size:
            part = (await fetched(broker, position=len(data), max_bytes=100)).topics[0].partitions[0]
            assert (part.error_code, part.position, part.size) == (0, len(data), newest.size)
            assert (part.current_leader.leader_id, len(part.unaligned_records) <= 100) == (1, True)
            data += bytes(part.unaligned_records)
        assert data == disk.image()[f"{LOG}/{newest.name}".removeprefix("/")]
        await broker.node.stop()

    run(scenario())


@pytest.mark.parametrize(
    ("wish", "error"),
    [
        ({"end": 1}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"epoch": 77}, ErrorCode.SNAPSHOT_NOT_FOUND),
        ({"position": -1}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"position": 1 << 40}, ErrorCode.POSITION_OUT_OF_RANGE),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"leader_epoch": 99}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        ({"topic": "t"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_what_is_not_there_is_refused_as_kafka_does(wish: dict[str, Any], error: ErrorCode) -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        await live_once(disk)
        broker = await MemoryBroker(disk, seed=1).start()
        part = (await fetched(broker, **wish)).topics[0].partitions[0]
        assert (part.error_code, bytes(part.unaligned_records)) == (error, b"")
        await broker.node.stop()

    run(scenario())


def test_another_cluster_is_refused() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        await live_once(disk)
        broker = await MemoryBroker(disk, seed=1).start()
        assert (await fetched(broker, cluster_id="another")).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        await broker.node.stop()

    run(scenario())
