"""Snapshot files: Kafka's format and names, whole or refused, and never half there."""

import pytest

from hightide.errors import CorruptionError
from hightide.limits import METADATA_BATCH_BYTES_MAX
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.storage.checkpoints import make_directory_durably
from hightide.storage.metadata_snapshots import (
    SnapshotReader,
    SnapshotStore,
    SnapshotWriter,
    StoredSnapshot,
    parse_name,
    snapshot_name,
)
from hightide.wire.records import iterate_headers

NOW = 1_700_000_000_000
LOG = "data/__cluster_metadata-0"
VALUES = [[b"one", b"two"], [b"three" * 50]]
NAME = "00000000000000000042-0000000003.checkpoint"


def written(disk: SimulatedDisk, end: int = 42, epoch: int = 3, rules: Rules = ALL_ON) -> SnapshotStore:
    """A store in which one snapshot was written as a node does it."""
    disk.make_directory(LOG)
    store = SnapshotStore(disk, LOG, rules)
    part = store.begin(end, epoch)
    writer = SnapshotWriter(part, NOW)
    for values in VALUES:
        writer.append(values)
    snapshot = writer.finish()
    part.sync()
    part.publish()
    store.add(snapshot)
    return store


def read(data: bytes, piece_bytes: int = 1 << 20, epoch: int = 3) -> list[list[bytes]]:
    """What a reader makes of bytes that come in pieces."""
    reader = SnapshotReader(42, epoch, "the file")
    found = []
    for position in range(0, len(data), piece_bytes):
        found += list(reader.feed(data[position : position + piece_bytes]))
    assert reader.finish() == StoredSnapshot(42, epoch, len(data), NOW)
    return found


def the_file(disk: SimulatedDisk) -> bytes:
    return disk.image()[f"{LOG}/{NAME}"]


@pytest.fixture
def stored() -> bytes:
    disk = SimulatedDisk()
    written(disk)
    return the_file(disk)


@pytest.mark.parametrize(("end", "epoch"), [(0, 0), (42, 3), (10**19, 2**31 - 1)])
def test_names_carry_end_and_epoch(end: int, epoch: int) -> None:
    assert parse_name(snapshot_name(end, epoch)) == (end, epoch)


@pytest.mark.parametrize(
    "name",
    [
        "00000000000000000042.log",
        "00000000000000000042-0000000003.checkpoint.part",
        "00000000000000000042-3.checkpoint",
        "0000000000000000004x-0000000003.checkpoint",
        "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint",
    ],
)
def test_other_names_are_no_snapshots(name: str) -> None:
    assert parse_name(name) is None


def test_values_come_back_batch_by_batch() -> None:
    disk = SimulatedDisk()
    store = written(disk)
    assert disk.list(LOG) == [NAME]
    assert store.newest is not None
    assert list(store.batches(store.newest)) == VALUES
    again = SnapshotStore(disk, LOG)
    again.open()
    assert again.snapshots == [StoredSnapshot(42, 3, len(the_file(disk)), NOW)] == store.snapshots


@pytest.mark.parametrize("piece_bytes", [1, 7, 61, 100, 1 << 20])
def test_pieces_may_be_of_any_size(stored: bytes, piece_bytes: int) -> None:
    assert read(stored, piece_bytes) == VALUES


def test_a_bit_that_flips_anywhere_is_noticed(stored: bytes) -> None:
    for position in range(len(stored)):
        damaged = bytearray(stored)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptionError):
            read(bytes(damaged))


def test_a_file_that_is_cut_anywhere_is_noticed(stored: bytes) -> None:
    for size in range(len(stored)):
        with pytest.raises(CorruptionError):
            read(stored[:size])


def test_a_file_without_one_of_its_batches_is_noticed(stored: bytes) -> None:
    positions = [(position, header.size) for position, header in iterate_headers(stored)]
    assert len(positions) == 4
    for position, size in positions:
        with pytest.raises(CorruptionError):
            read(stored[:position] + stored[position + size :])


@pytest.mark.parametrize("more", [b"\0", b"x" * 200])
def test_nothing_may_follow_the_footer(stored: bytes, more: bytes) -> None:
    with pytest.raises(CorruptionError):
        read(stored + more)
    with pytest.raises(CorruptionError):
        read(stored + stored)


def test_the_epoch_in_the_name_counts(stored: bytes) -> None:
    with pytest.raises(CorruptionError):
        read(stored, epoch=4)


def test_a_length_that_can_not_be_is_not_waited_for(stored: bytes) -> None:
    for length in (-1, 0, METADATA_BATCH_BYTES_MAX + 1):
        reader = SnapshotReader(42, 3, "the file")
        with pytest.raises(CorruptionError):
            list(reader.feed(stored[:8] + length.to_bytes(4, "big", signed=True) + stored[12:61]))


def test_what_was_not_finished_goes_with_the_next_start() -> None:
    disk = SimulatedDisk()
    store = written(disk)
    store.begin(50, 3).write(b"half")
    assert len(disk.list(LOG)) == 2
    again = SnapshotStore(disk, LOG)
    again.open()
    assert disk.list(LOG) == [NAME]
    assert again.snapshots == store.snapshots


def test_two_parts_of_one_snapshot_do_not_meet() -> None:
    disk = SimulatedDisk()
    store = written(disk)
    first, second = store.begin(50, 3), store.begin(50, 3)
    first.write(b"first")
    second.write(b"second")
    first.discard()
    second.publish()
    assert disk.image()[f"{LOG}/{snapshot_name(50, 3)}"] == b"second"


def test_those_below_the_start_are_removed_and_one_that_is_forgotten_stays_on_disk() -> None:
    disk = SimulatedDisk()
    written(disk, 10)
    written(disk, 20)
    written(disk, 30)
    store = SnapshotStore(disk, LOG)
    store.open()
    store.remove_below(20)
    assert [snapshot.end for snapshot in store.snapshots] == [20, 30]
    assert disk.list(LOG) == [snapshot_name(20, 3), snapshot_name(30, 3)]
    store.forget(store.snapshots[-1])
    assert store.newest == store.find(20, 3)
    assert len(disk.list(LOG)) == 2


def test_a_header_that_can_not_be_read_leaves_a_snapshot_without_a_time() -> None:
    disk = SimulatedDisk()
    written(disk)
    disk.flip(f"{LOG}/{NAME}", 70)
    store = SnapshotStore(disk, LOG)
    store.open()
    assert [snapshot.timestamp for snapshot in store.snapshots] == [-1]
    with pytest.raises(CorruptionError):
        list(store.batches(store.snapshots[0]))


def half_files(rules: Rules) -> int:
    """Of all crashes, powers lost and seeds: after how many there is a file with the name of a snapshot that is none,
    or none although its writer had been told that it is there."""
    found = 0
    for operation in range(1, 12):
        for seed in range(10):
            disk = SimulatedDisk()
            make_directory_durably(disk, LOG)
            disk.crash_at(operation)
            try:
                written(disk, rules=rules)
                promised = True
            except SimulatedCrash:
                promised = False
            disk.power_loss(seed)
            store = SnapshotStore(disk, LOG)
            store.open()
            try:
                whole = [list(store.batches(snapshot)) == VALUES for snapshot in store.snapshots]
            except CorruptionError:
                whole = [False]
            found += not all(whole) or (promised and not whole)
    return found


def test_a_power_loss_at_any_operation_leaves_a_whole_snapshot_or_none() -> None:
    assert half_files(ALL_ON) == 0


def test_without_rule_18_a_power_loss_leaves_half_a_snapshot() -> None:
    assert half_files(ALL_ON.without("r18_atomic_checkpoints")) > 0
