"""What a metadata log stands on after any crash: the snapshot it had or the one it was about to load, never neither."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import pytest

from hightide.errors import CorruptionError
from hightide.metadata.image import Image
from hightide.metadata.records import encode_record
from hightide.metadata.snapshot import snapshot_batches
from hightide.node.snapshot_recovery import KEY, Foundation, recover_snapshots, stand_on
from hightide.rules import ALL_ON
from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Log
from hightide.storage.metadata_snapshots import SnapshotStore, SnapshotWriter, snapshot_name
from hightide.storage.settings import LogSettings
from hightide.types import METADATA_TOPIC, METADATA_TOPIC_ID, PartitionKey
from hightide.wire.batches import build_batch
from hightide.wire.messages.metadata_log import FeatureLevelRecord
from hightide.wire.records import Record

NOW = 1_700_000_000_000
DATA = "data"
LOG = f"{DATA}/__cluster_metadata-0"
SETTINGS = LogSettings(segment_bytes=300, retention_ms=-1, file_delete_delay_ms=0)

Epochs = Sequence[int]


def token(length: int) -> bytes:
    return bytes(range(65, 65 + length))


def record(offset: int, epoch: int) -> FeatureLevelRecord:
    """The record that the leader of `epoch` wrote at `offset`: every image tells which of them it has."""
    return FeatureLevelRecord(name=f"feature-{offset}", feature_level=epoch)


def image_of(epochs: Epochs) -> Image:
    """What a log with records of these epochs, from offset 0 on, means."""
    image = Image()
    for offset, epoch in enumerate(epochs):
        image, _ = image.apply([record(offset, epoch)], offset, epoch)
    return image


class Follower:
    """A metadata log on a disk, with what a node does to it."""

    def __init__(self, disk: SimulatedDisk) -> None:
        self.disk = disk
        self.directory = LogDirectory.open(
            disk, DATA, node_id=1, cluster_id="c", token=token, rules=ALL_ON, reserve_bytes=4096
        )
        path = self.directory.open_partition(KEY, METADATA_TOPIC_ID, token)
        facts = self.directory.facts(KEY, METADATA_TOPIC_ID)
        self.log = Log.open(
            disk, path, METADATA_TOPIC, 0, METADATA_TOPIC_ID, SETTINGS, facts=facts, now_ms=NOW, rules=ALL_ON
        )
        self.high_watermark = facts.high_watermark
        self.foundation: Foundation = recover_snapshots(self.directory, self.log, ALL_ON)

    @property
    def store(self) -> SnapshotStore:
        return self.foundation.store

    def append(self, epochs: Epochs) -> None:
        """Records from the log's end on, synced and noted down as a node does."""
        self.write(epochs)
        self.sync()
        self.checkpoint(self.log.synced_end)

    def write(self, epochs: Epochs) -> None:
        for epoch in epochs:
            batch = build_batch(
                [Record(timestamp=NOW, value=encode_record(record(self.log.end, epoch)))],
                base_offset=self.log.end,
                leader_epoch=epoch,
            )
            self.log.append_as_follower(memoryview(batch), epoch, NOW)

    def sync(self) -> None:
        """A group commit, noted down; the next checkpoint is seconds away."""
        plan = self.log.unsynced_files()
        for file in plan.files:
            file.sync()
        self.log.synced(plan)
        self.directory.synced_ends.record(
            PartitionKey(METADATA_TOPIC_ID, 0), self.log.truncation_generation, self.log.synced_end
        )
        self.directory.synced_ends.sync()

    def checkpoint(self, high_watermark: int) -> None:
        self.directory.remember(
            recovery_points={KEY: self.log.write_checkpoints()},
            high_watermarks={KEY: high_watermark},
            log_starts={KEY: self.log.start},
        )
        self.directory.write_checkpoints()

    def take(self, epochs: Epochs) -> None:
        """A snapshot of all these records, on disk for good."""
        part = self.store.begin(len(epochs), epochs[-1])
        writer = SnapshotWriter(part, NOW)
        for values in snapshot_batches(image_of(epochs)):
            writer.append(values)
        snapshot = writer.finish()
        part.sync()
        part.publish()
        self.store.add(snapshot)

    def start_at(self, offset: int) -> None:
        """Let go of what is below, as retention does."""
        self.log.advance_start(offset)
        self.checkpoint(self.log.synced_end)
        self.log.delete_old_segments(NOW, offset)
        self.store.remove_below(offset)

    def load(self, epochs: Epochs) -> None:
        """Load the snapshot of another node that stands for these records."""
        part = self.store.begin(len(epochs), epochs[-1])
        writer = SnapshotWriter(part, NOW)
        for values in snapshot_batches(image_of(epochs)):
            writer.append(values)
        snapshot = writer.finish()
        part.sync()
        stand_on(self.directory, self.log, self.store, part, snapshot)

    def check(self) -> None:
        """I17, and the log goes on where the image ends."""
        opened, image = self.log, self.foundation.image
        assert opened.start <= image.offset + 1 <= opened.end
        assert opened.start == 0 or any(snapshot.end == opened.start for snapshot in self.store.snapshots)
        newest = self.store.newest
        assert self.foundation.snapshot == (None if newest is None else (newest.end, newest.epoch))
        assert not [name for name in self.disk.list(LOG) if name.endswith(".part")]


COMMITTED = [1] * 3 + [3] * 5  # what the leader's snapshot stands for
END = len(COMMITTED)

BEFORE: dict[str, Callable[[Follower], None]] = {
    "empty": lambda follower: follower.append([]),
    "behind": lambda follower: follower.append(COMMITTED[:5]),
    "diverged and shorter": lambda follower: follower.append([1] * 3 + [2] * 2),
    "diverged and longer": lambda follower: follower.append([1] * 3 + [2] * 12),
    "diverged at once": lambda follower: follower.append([2] * 10),
    "on a snapshot": lambda follower: on_a_snapshot(follower, 2),
    "on a snapshot, far": lambda follower: on_a_snapshot(follower, 12),
    "the same and more": lambda follower: follower.append(COMMITTED + [3] * 4),
}


def on_a_snapshot(follower: Follower, more: int) -> None:
    follower.append([1] * 3)
    follower.take([1] * 3)
    follower.start_at(3)
    follower.append([2] * more)


class Before(NamedTuple):
    """A follower's disk and what it holds."""

    disk: SimulatedDisk
    image: Image
    start: int
    end: int


def prepared(before: str) -> Before:
    disk = SimulatedDisk(now_ms=lambda: NOW)
    follower = Follower(disk)
    BEFORE[before](follower)
    disk.kill()
    again = Follower(disk)
    again.check()
    disk.kill()
    return Before(disk, again.foundation.image, again.log.start, again.log.end)


def check_old_or_new(before: Before, after: Follower, *, finished: bool = False) -> None:
    """Nothing changed, or the snapshot counts: what was promised is in the log or in there."""
    after.check()
    if after.foundation.snapshot == (END, 3):
        assert after.foundation.image == image_of(COMMITTED)
        assert after.log.start == END or after.log.epochs.epoch_at(END - 1) == 3
    else:
        assert not finished
        assert after.foundation.image == before.image
        assert (after.log.start, after.log.end) == (before.start, before.end)


def crashed(disk: SimulatedDisk, operation: int, work: Callable[[], object]) -> bool:
    """Whether the process died in that operation of this work."""
    disk.crash_at(operation)
    try:
        work()
    except SimulatedCrash:
        return True
    disk.crash_at(0)
    return False


@pytest.mark.parametrize("name", BEFORE)
@pytest.mark.parametrize("seed", [None, 1, 2], ids=["kill", "power loss 1", "power loss 2"])
def test_a_crash_at_every_operation_of_a_load(name: str, seed: int | None) -> None:
    before = prepared(name)
    operation, died = 0, True
    while died:
        operation += 1
        disk = before.disk.copy()
        follower = Follower(disk)
        died = crashed(disk, operation, partial(follower.load, COMMITTED))
        end_of_life(disk, seed)
        again = Follower(disk)
        check_old_or_new(before, again, finished=not died)
        again.write([4] * 3)
        again.sync()
        disk.kill()  # before the next checkpoint
        last = Follower(disk)
        last.check()
        assert last.foundation.image == again.foundation.image
        assert (last.log.start, last.log.end) == (again.log.start, again.log.end)
    assert operation > 8


def end_of_life(disk: SimulatedDisk, seed: int | None) -> None:
    if seed is None:
        disk.kill()
    else:
        disk.power_loss(seed)


@pytest.mark.parametrize("seed", [None, 1, 2], ids=["kill", "power loss 1", "power loss 2"])
def test_a_crash_at_every_operation_after_a_load(seed: int | None) -> None:
    """Whatever is noted down first of the log that began anew."""
    before = prepared("on a snapshot")
    operation, died = 0, True
    while died:
        operation += 1
        disk = before.disk.copy()
        follower = Follower(disk)
        follower.load(COMMITTED)
        died = crashed(disk, operation, partial(follower.append, [4] * 3))
        end_of_life(disk, seed)
        again = Follower(disk)
        again.check()
        assert again.foundation.image == image_of(COMMITTED)
        assert again.log.start == END
        assert died or again.log.end == END + 3
    assert operation > 8


@pytest.mark.parametrize("second", range(1, 40, 3))
def test_a_crash_while_an_interrupted_load_is_finished(second: int) -> None:
    """The start that completes it dies as well, in the middle of it."""
    before = prepared("diverged and longer")
    for first in range(6, 24, 3):
        disk = before.disk.copy()
        follower = Follower(disk)
        if not crashed(disk, first, partial(follower.load, COMMITTED)):
            break
        disk.power_loss(first)
        crashed(disk, second, partial(Follower, disk))
        disk.power_loss(second)
        check_old_or_new(before, Follower(disk))


def test_a_loaded_snapshot_is_what_the_next_start_begins_with() -> None:
    disk = prepared("on a snapshot").disk
    follower = Follower(disk)
    follower.load(COMMITTED)
    assert (follower.log.start, follower.log.end, follower.log.synced_end) == (END, END, END)
    follower.append([3, 4])
    disk.kill()
    again = Follower(disk)
    assert again.foundation.image == image_of(COMMITTED)
    assert (again.log.start, again.log.end) == (END, END + 2)
    assert [snapshot.end for snapshot in again.store.snapshots] == [END]


def taken_twice(*, start: int) -> SimulatedDisk:
    """All records, snapshots at 3 and 6, and the log from `start` on."""
    disk = SimulatedDisk(now_ms=lambda: NOW)
    follower = Follower(disk)
    follower.append(COMMITTED)
    follower.take(COMMITTED[:3])
    follower.take(COMMITTED[:6])
    if start:
        follower.start_at(start)
    disk.kill()
    return disk


NEWEST = f"{LOG}/{snapshot_name(6, 3)}"


@pytest.mark.parametrize(("start", "used"), [(0, 3), (3, 3)])
def test_an_older_snapshot_will_do_while_the_log_holds_the_rest(start: int, used: int) -> None:
    disk = taken_twice(start=start)
    disk.flip(NEWEST, 200)
    follower = Follower(disk)
    follower.check()
    assert follower.foundation.image == image_of(COMMITTED[:used])
    assert disk.exists(NEWEST), "somebody may want to look at it"


def test_without_any_readable_snapshot_a_whole_log_will_do() -> None:
    disk = taken_twice(start=0)
    disk.flip(NEWEST, 200)
    disk.flip(f"{LOG}/{snapshot_name(3, 1)}", 100)
    follower = Follower(disk)
    assert follower.foundation.image == Image()
    assert follower.foundation.snapshot is None


def test_a_log_whose_snapshot_can_not_be_read_is_refused() -> None:
    disk = taken_twice(start=6)
    disk.flip(NEWEST, 200)
    with pytest.raises(CorruptionError, match="can't be read"):
        Follower(disk)


def test_a_log_whose_snapshot_is_gone_is_refused() -> None:
    disk = taken_twice(start=6)
    disk.lose(NEWEST)
    with pytest.raises(CorruptionError, match="missing"):
        Follower(disk)


def test_an_interrupted_load_of_what_is_now_unreadable_is_refused() -> None:
    """The log it should replace may be half gone: nobody knows what this voter promised."""
    disk = prepared("diverged and longer").disk
    assert crashed(disk, 9, partial(Follower(disk).load, COMMITTED))
    disk.kill()
    (place,) = [name for name in disk.list(LOG) if name == snapshot_name(END, 3)]
    disk.flip(f"{LOG}/{place}", 300)
    with pytest.raises(CorruptionError, match="can't be read"):
        Follower(disk)


def test_a_snapshot_that_holds_other_records_than_metadata_is_refused() -> None:
    disk = SimulatedDisk(now_ms=lambda: NOW)
    follower = Follower(disk)
    follower.append(COMMITTED)
    part = follower.store.begin(6, 3)
    writer = SnapshotWriter(part, NOW)
    writer.append([b"\x01\xff\x01\x00"])
    writer.finish()
    part.publish()
    follower.log.advance_start(6)
    follower.checkpoint(END)
    disk.kill()
    with pytest.raises(CorruptionError, match="can't be replayed"):
        Follower(disk)
