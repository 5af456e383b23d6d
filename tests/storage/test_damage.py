"""Every kind of file flipped, zeroed, cut or missing: repaired or refused with a clear message, never wrong data.

The disk holds a log with several sealed segments, indexes, transaction index, snapshots and epochs, all of it synced.
Whatever happens to one file of it, a start either refuses with a sentence that names a file or directory, or serves
exactly what was there (R17, R18, I31); a read of a damaged batch may also be refused when it is tried.
"""

from collections.abc import Callable
from random import Random

import pytest

from hightide.errors import StorageError
from hightide.sim.disk import SimulatedDisk
from hightide.storage.log import Log
from hightide.types import TopicPartition
from hightide.wire.records import iterate_records, read_header
from tests.storage.machine import DATA, Machine

Damage = Callable[[SimulatedDisk, str, Random], None]


def populated(*, clean: bool) -> Machine:
    machine = Machine()
    machine.boot()
    for _ in range(12):
        machine.append(2)
    machine.append(producer_id=8, transactional=True)
    machine.append(1)
    machine.abort(8)
    machine.new_epoch()
    machine.append(3)
    machine.log.roll()
    for _ in range(5):
        machine.append(2)
    machine.commit()
    machine.delete_records(4)
    machine.append(2)
    machine.commit()
    machine.sync_record()
    if clean:
        machine.stop()
    else:
        machine.checkpoint()
    machine.disk.kill()
    return machine


CLEAN, UNCLEAN = populated(clean=True), populated(clean=False)


def flip_somewhere(disk: SimulatedDisk, path: str, rng: Random) -> None:
    size = len(disk.image()[path])
    if size:
        disk.flip(path, rng.randrange(size), 1 << rng.randrange(8))


def zero_all(disk: SimulatedDisk, path: str, rng: Random) -> None:
    disk.overwrite(path, bytes(len(disk.image()[path])))


def zero_a_sector(disk: SimulatedDisk, path: str, rng: Random) -> None:
    data = bytearray(disk.image()[path])
    start = rng.randrange(max(1, len(data))) // 512 * 512
    end = min(len(data), start + 512)
    data[start:end] = bytes(end - start)
    disk.overwrite(path, bytes(data))


def cut(disk: SimulatedDisk, path: str, rng: Random) -> None:
    data = disk.image()[path]
    disk.overwrite(path, data[: rng.randrange(max(1, len(data)))])


def extend(disk: SimulatedDisk, path: str, rng: Random) -> None:
    disk.overwrite(path, disk.image()[path] + rng.randbytes(rng.randrange(1, 200)))


def empty(disk: SimulatedDisk, path: str, rng: Random) -> None:
    disk.overwrite(path, b"")


def remove(disk: SimulatedDisk, path: str, rng: Random) -> None:
    disk.lose(path)


def swap_blocks(disk: SimulatedDisk, path: str, rng: Random) -> None:
    """A misdirected write: one part of the file lies where another should."""
    data = bytearray(disk.image()[path])
    half = len(data) // 2
    data[half : 2 * half] = data[:half]
    disk.overwrite(path, bytes(data))


DAMAGES: list[Damage] = [flip_somewhere, zero_all, zero_a_sector, cut, extend, empty, remove, swap_blocks]
FILES = sorted(set(CLEAN.disk.image()) | set(UNCLEAN.disk.image()))


def outcome(original: Machine, path: str, damage: Damage, seed: int) -> str:
    """What a start on the damaged disk comes to; an assertion fails when it serves anything wrong."""
    machine = Machine(original.disk.copy())
    machine.promises = original.promises
    damage(machine.disk, path, Random(seed))
    refusal = refused(machine)
    if refusal is not None:
        assert DATA in refusal, f"a message that names no file: {refusal}"
        return "refused"
    unreadable, wrong = sort_out(machine.violations())
    assert wrong == [], f"{path} {damage.__name__} {seed}"
    if unreadable:
        return "refused at read"
    assert readable_by_time(machine.log, original)
    return "repaired"


def refused(machine: Machine) -> str | None:
    """The sentence with which a start refuses."""
    try:
        machine.boot()
    except StorageError as error:
        return str(error)
    return None


def sort_out(violations: list[str]) -> tuple[list[str], list[str]]:
    """Refused reads, which name their file, and everything that is really wrong."""
    unreadable = [entry for entry in violations if entry.startswith(f"I29: {DATA}/")]
    return unreadable, [entry for entry in violations if entry not in unreadable]


def readable_by_time(log: Log, original: Machine) -> bool:
    """Look-ups by time give what a linear scan gives (I32)."""
    expected = []
    for base in sorted(original.promises.written):
        batch = original.promises.written[base]
        header = read_header(batch)
        if not header.is_control:
            expected += [record for record in iterate_records(batch, 0, header) if record.offset >= log.start]
    for record in expected[:: max(1, len(expected) // 7)]:
        found = log.offset_for_timestamp(record.timestamp, log.end)
        first = next(other for other in expected if other.timestamp >= record.timestamp)
        if found is None or found[0] != first.offset:
            return False
    return True


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("path", FILES)
def test_a_damaged_file_is_repaired_or_refused(path: str, damage: Damage) -> None:
    for original in (CLEAN, UNCLEAN):
        if path in original.disk.image():
            for seed in range(6 if damage is flip_somewhere else 2):
                outcome(original, path, damage, seed)


@pytest.mark.long
@pytest.mark.parametrize("path", FILES)
def test_a_flip_in_every_byte_is_repaired_or_refused(path: str) -> None:
    for original in (CLEAN, UNCLEAN):
        for position in range(len(original.disk.image().get(path, b""))):

            def flip(disk: SimulatedDisk, path: str, rng: Random, at: int = position) -> None:
                disk.flip(path, at, 1 << rng.randrange(8))

            outcome(original, path, flip, position)


def test_the_undamaged_disks_are_sound() -> None:
    for original in (CLEAN, UNCLEAN):
        machine = Machine(original.disk.copy())
        machine.promises = original.promises
        machine.boot()
        assert machine.violations() == []
        assert machine.directory.clean == (original is CLEAN)
        assert readable_by_time(machine.log, original)


def kinds(suffix: str) -> list[str]:
    return [path for path in FILES if path.endswith(suffix)]


@pytest.mark.parametrize(
    "suffix", [".index", ".timeindex", ".txnindex", ".seal", ".snapshot", "leader-epoch-checkpoint"]
)
def test_what_is_derived_from_the_log_is_repaired(suffix: str) -> None:
    assert kinds(suffix), "the populated log has such a file"
    for path in kinds(suffix):
        for damage in (flip_somewhere, remove, empty, zero_all):
            for original in (CLEAN, UNCLEAN):
                if path in original.disk.image():
                    assert outcome(original, path, damage, 1) == "repaired"


def test_a_damaged_batch_is_refused_and_nothing_is_cut() -> None:
    for path in kinds(".log"):
        for original in (CLEAN, UNCLEAN):
            disk = original.disk.copy()
            machine = Machine(disk)
            machine.promises = original.promises
            if not disk.image()[path]:
                continue
            flip_somewhere(disk, path, Random(3))
            damaged = disk.image()[path]
            refusal = refused(machine)
            assert refusal is None or path in refusal
            assert disk.image()[path] == damaged


def last_segment(machine: Machine) -> str:
    return max(path for path in machine.disk.image() if path.endswith(".log"))


def test_a_torn_tail_is_cut_at_every_byte_of_the_last_batch() -> None:
    original = populated(clean=False)
    original.restart()
    synced = original.log.end
    last = original.append(3)
    original.disk.kill()
    path = last_segment(original)
    data = original.disk.image()[path]
    start = len(data) - len(original.promises.written[last.base_offset])
    for size in range(start, len(data) + 1):
        machine = Machine(original.disk.copy())
        machine.promises = original.promises
        machine.disk.overwrite(path, data[:size])
        machine.boot()
        assert machine.log.end == (last.last_offset + 1 if size == len(data) else synced)
        assert machine.violations() == []
        assert not machine.log.doubtful


def test_a_broken_middle_of_an_unsynced_tail_makes_the_log_doubtful() -> None:
    original = populated(clean=False)
    original.restart()
    synced = original.log.end
    original.append(1)
    original.append(1)
    original.disk.kill()
    path = last_segment(original)
    size = len(original.disk.image()[path])
    length = len(original.promises.written[synced])
    original.disk.flip(path, size - 2 * length + 30)
    machine = Machine(original.disk)
    machine.promises = original.promises
    machine.boot()
    assert machine.log.end == synced
    assert machine.log.doubtful
    assert machine.violations() == []


def test_a_partition_directory_of_another_log_is_not_mixed_in() -> None:
    machine = Machine(UNCLEAN.disk.copy())
    machine.promises = UNCLEAN.promises
    machine.boot()
    assert [entry.partition for entry in machine.directory.partitions.list()] == [TopicPartition("orders", 0)]
