"""One segment: its seal, and that finding things in it is cheap where readers repeat themselves."""

import pytest

from hightide.limits import MIB, ROOM_BYTES_MAX, ROOM_FROM_BYTES
from hightide.sim.disk import SimulatedDisk, SimulatedFile
from hightide.storage.scanning import has_valid_batch
from hightide.storage.seal import Seal
from hightide.storage.segment import Segment, segment_name
from hightide.storage.settings import LogSettings, OpenFacts
from tests.unit.storage.logs import (
    DIRECTORY,
    append,
    batch,
    contents,
    fill,
    new_disk,
    numbered,
    open_log,
    read_records,
    sync,
)

WIDE = LogSettings(index_interval_bytes=200)


def test_kafkas_names() -> None:
    assert segment_name(7) == "00000000000000000007.log"
    assert segment_name(2**62, ".index") == "04611686018427387904.index"


def test_a_seal_is_whole_or_nothing() -> None:
    seal = Seal(1, 2, 3, 4, 5, 6, 7, 8)
    data = seal.encode()
    assert Seal.decode(data) == seal
    for byte in range(len(data)):
        damaged = bytearray(data)
        damaged[byte] ^= 1
        assert Seal.decode(bytes(damaged)) is None
        assert Seal.decode(data[:byte]) is None


def test_the_tail_is_found_without_reading() -> None:
    disk = new_disk()
    log = open_log(disk, WIDE)
    fill(log, 500)
    disk.fail("read", "*", times=-1)
    for offset in range(400, 500):
        read = log.read(offset, 1 << 20, upper_bound=500, min_one_batch=True)
        assert read is not None
        assert read.end == 500
        read.slice.release()


def test_going_on_where_the_last_read_stopped_needs_one_look_at_most() -> None:
    disk = new_disk()
    log = open_log(disk, WIDE)
    fill(log, 3000)
    offset, reads = 0, 0
    while offset < 1500:
        fault = disk.fail("read", "*.log", skip=1000, times=1)
        read = log.read(offset, 4000, upper_bound=3000, min_one_batch=True)
        assert read is not None
        read.slice.release()
        assert offset == 0 or fault.skip >= 999
        offset = read.end
        reads += 1
        disk.heal()
    assert reads > 10


def test_one_sealed_segment_keeps_its_indexes_in_memory() -> None:
    log = open_log(new_disk())
    fill(log, 100)
    assert contents(log) == numbered(0, 100)
    assert log.offset_for_timestamp(0, 100) is not None
    assert log.max_timestamp_offset(100) is not None
    loaded = [segment for segment in log._segments if segment._index is not None]
    assert len(loaded) <= 2


def test_a_range_is_verified_once() -> None:
    disk = new_disk()
    log = open_log(disk, WIDE)
    fill(log, 100)
    log.close(clean=True)
    disk.kill()
    log = open_log(disk, WIDE, OpenFacts(clean=True, recovery_point=100))
    assert len(read_records(log)) == 100
    segment = log._segments.active
    assert segment._verified == [(0, segment.size, 100)]
    append(log, b"value-100")
    assert contents(log) == numbered(0, 101)


def test_damage_to_an_index_that_is_loaded_later_is_repaired() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    for path in [path for path in disk.image() if path.endswith((".index", ".timeindex"))]:
        disk.overwrite(path, b"")
    assert contents(log) == numbered(0, 30)
    assert log.max_timestamp_offset(30) is not None


@pytest.mark.parametrize("garbage", [b"", b"\x00" * 40, b"\x02" * 40, bytes(range(256))])
def test_a_valid_batch_is_found_behind_garbage(garbage: bytes) -> None:
    disk: SimulatedDisk = new_disk()
    disk.make_directory(DIRECTORY)
    segment = Segment.open(disk, DIRECTORY, 0, create=True)
    whole = bytes(batch(b"x" * 10))
    segment.file.write_at(garbage + whole + garbage, 0)
    size = segment.file.size()
    assert has_valid_batch(segment.file, 0, size, 0)
    assert not has_valid_batch(segment.file, 0, size, 1)
    assert not has_valid_batch(segment.file, 0, len(garbage) + len(whole) - 1, 0)
    assert not has_valid_batch(segment.file, len(garbage) + 1, size, 0)


# ---------------------------------------------------------------------- room for what will be appended


def rooms_made(monkeypatch: pytest.MonkeyPatch, segment_bytes: int, batch_bytes: int, count: int) -> int:
    """How often room was made; never beyond the segment, and no batch was written beyond it."""
    log = open_log(new_disk(), LogSettings(segment_bytes=segment_bytes))
    room_end = times = 0

    def make_room(_: object, position: int, length: int) -> None:
        nonlocal room_end, times
        assert position == log.active_bytes
        room_end = position + length
        assert room_end <= segment_bytes
        times += 1

    monkeypatch.setattr(SimulatedFile, "make_room", make_room)
    for _ in range(count):
        append(log, bytes(batch_bytes))
        assert log.active_bytes <= max(room_end, ROOM_FROM_BYTES)
        sync(log)
    return times


def test_a_small_segment_makes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rooms_made(monkeypatch, 64 * MIB, 100_000, 10) == 0


@pytest.mark.parametrize(
    ("size", "size_max", "length"),
    [
        (MIB, 1024 * MIB, MIB),
        (80 * MIB, 1024 * MIB, 10 * MIB),
        (500 * MIB, 1024 * MIB, ROOM_BYTES_MAX),
        (500 * MIB, 503 * MIB, 3 * MIB - 1000),
        (500 * MIB, 100 * MIB, 0),
    ],
)
def test_room_is_an_eighth_of_the_segment_and_bounded(
    monkeypatch: pytest.MonkeyPatch, size: int, size_max: int, length: int
) -> None:
    made: list[tuple[int, int]] = []
    monkeypatch.setattr(SimulatedFile, "make_room", lambda _, position, length: made.append((position, length)))
    segment = Segment.open(new_disk(), "data", 0, create=True)
    segment.size = size
    segment.make_room(1000, size_max)
    assert made == [(size, 1000 + length)]
    assert segment.room_end == size + 1000 + length


def test_every_larger_segment_makes_room_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rooms_made(monkeypatch, 5 * MIB, 900_000, 15) == 6  # two for each of three segments


def test_no_room_is_made_while_the_segment_before_is_on_its_way_to_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where blocks are free may have to be read from the disk, behind all that is being written to it."""
    log = open_log(new_disk(), LogSettings(segment_bytes=5 * MIB))
    made: list[int] = []
    monkeypatch.setattr(SimulatedFile, "make_room", lambda _, *place: made.append(place[1]))
    for _ in range(8):  # five fill a segment
        append(log, bytes(900_000))
    first = len(made)
    assert log.active_bytes > ROOM_FROM_BYTES
    append(log, bytes(900_000))
    assert len(made) == first
    sync(log)
    append(log, bytes(900_000))
    assert len(made) == first + 1
