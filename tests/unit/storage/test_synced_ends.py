"""The record of synced ends: what was synced is remembered, what was lowered stays low, and the file stays small."""

from random import Random

import pytest

from hightide.errors import CorruptionError
from hightide.sim.disk import SimulatedDisk
from hightide.sim.images import LOST
from hightide.storage import synced_ends
from hightide.storage.synced_ends import ENTRY_BYTES, HEADER, SyncedEnds, create_synced_ends
from hightide.types import PartitionKey

A = PartitionKey(bytes(range(16)), 0)
B = PartitionKey(bytes(range(16)), 1)


def new(disk: SimulatedDisk) -> SyncedEnds:
    disk.make_directory("d")
    disk.sync_directory("")
    create_synced_ends(disk, "d/ends")
    disk.sync_directory("d")
    return SyncedEnds.open(disk, "d/ends")


def sync(ends: SyncedEnds) -> None:
    """What a Syncer does."""
    for target in ends.unsynced():
        target.sync()
    ends.synced()


def test_what_was_synced_is_remembered() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    assert ends.end(A) == 0
    ends.record(A, 0, 10)
    ends.record(B, 0, 20)
    ends.write()
    sync(ends)
    ends.record(A, 0, 30)
    ends.write()
    assert ends.needs_sync
    assert ends.end(A) == 30
    disk.power_loss(0, (LOST,))
    again = SyncedEnds.open(disk, "d/ends")
    assert (again.end(A), again.end(B)) == (10, 20)


def test_a_kill_loses_nothing_that_was_written() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    ends.record(A, 0, 10)
    ends.write()
    ends.record(A, 0, 11)
    disk.kill()
    assert SyncedEnds.open(disk, "d/ends").end(A) == 10


def test_the_same_end_again_is_not_written() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    ends.record(A, 0, 10)
    ends.write()
    before = disk.operations
    ends.record(A, 0, 10)
    ends.write()
    assert disk.operations == before


def test_a_late_sync_from_before_a_truncation_does_not_count() -> None:
    ends = new(SimulatedDisk())
    ends.record(A, 0, 10)
    ends.lower(A, 1, 5)
    ends.record(A, 0, 12)
    assert ends.end(A) == 5
    ends.record(A, 1, 6)
    assert ends.end(A) == 6


def test_lowering_is_durable_at_once() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    ends.record(A, 0, 10)
    ends.write()
    sync(ends)
    ends.lower(A, 1, 5)
    disk.power_loss(0, (LOST,))
    assert SyncedEnds.open(disk, "d/ends").end(A) == 5


def test_lowering_to_what_is_low_already_costs_nothing() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    before = disk.operations
    ends.lower(A, 1, 5)
    assert disk.operations == before


def test_lowering_on_a_full_disk_can_be_tried_again() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    ends.record(A, 0, 10)
    ends.write()
    disk.fail("write", keep=7)
    with pytest.raises(OSError, match="Input/output"):
        ends.lower(A, 1, 5)
    ends.lower(A, 1, 5)
    disk.power_loss(0, (LOST,))
    assert SyncedEnds.open(disk, "d/ends").end(A) == 5


def test_broken_entries_are_skipped() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    for end in (10, 20, 30):
        ends.record(A, 0, end)
        ends.record(B, 0, end + 1)
        ends.write()
    ends.sync()
    disk.kill()
    disk.flip("d/ends", len(HEADER) + 4 * ENTRY_BYTES + 3)
    disk.overwrite("d/ends", disk.image()["d/ends"] + bytes(ENTRY_BYTES) + b"torn")
    again = SyncedEnds.open(disk, "d/ends")
    assert (again.end(A), again.end(B)) == (20, 31)
    again.record(A, 0, 40)
    again.write()
    disk.kill()
    assert SyncedEnds.open(disk, "d/ends").end(A) == 40


@pytest.mark.parametrize("data", [b"", HEADER[:-1], b"\0" * 200, HEADER.replace(b"1", b"2")])
def test_another_file_is_refused(data: bytes) -> None:
    disk = SimulatedDisk()
    new(disk)
    disk.overwrite("d/ends", data)
    with pytest.raises(CorruptionError, match="d/ends can't be read"):
        SyncedEnds.open(disk, "d/ends")


def test_a_deleted_log_is_forgotten() -> None:
    disk = SimulatedDisk()
    ends = new(disk)
    ends.record(A, 0, 10)
    ends.write()
    ends.record(B, 0, 20)
    ends.forget(A)
    ends.forget(A)
    assert ends.end(A) == 0
    ends.write()
    disk.kill()
    again = SyncedEnds.open(disk, "d/ends")
    assert (again.end(A), again.end(B)) == (0, 20)
    assert len(disk.image()["d/ends"]) == len(HEADER) + ENTRY_BYTES, "and nothing is left of it"


def test_the_file_stays_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced_ends, "SYNCED_ENDS_BYTES_MAX", 2000)
    disk = SimulatedDisk()
    ends = new(disk)
    for end in range(1, 500):
        ends.record(A, 0, end)
        ends.write()
        if end % 3 == 0:
            sync(ends)
    assert len(disk.image()["d/ends"]) < 4000
    disk.kill()
    assert SyncedEnds.open(disk, "d/ends").end(A) == 499


@pytest.mark.parametrize("seed", range(60))
def test_no_promise_is_lost_while_the_file_is_rewritten(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synced_ends, "SYNCED_ENDS_BYTES_MAX", 400)
    rng = Random(seed)
    disk = SimulatedDisk()
    ends = new(disk)
    promised = {A: 0, B: 0}  # covered by a sync that returned
    written = {A: 0, B: 0}
    generations = {A: 0, B: 0}
    for _ in range(rng.randrange(20, 200)):
        key = rng.choice([A, B])
        if rng.random() < 0.1:
            generations[key] += 1
            written[key] = promised[key] = written[key] // 2
            ends.lower(key, generations[key], written[key])
        else:
            written[key] += rng.randrange(1, 10)
            ends.record(key, generations[key], written[key])
            ends.write()
        if rng.random() < 0.3:
            covered = dict(written)
            targets = ends.unsynced()
            if rng.random() < 0.5:
                written[A] += 1
                ends.record(A, generations[A], written[A])
                ends.write()
            for target in targets:
                target.sync()
            ends.synced()
            promised = covered
    disk.power_loss(rng)
    again = SyncedEnds.open(disk, "d/ends")
    for key in (A, B):
        assert promised[key] <= again.end(key) <= written[key]
