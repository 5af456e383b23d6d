"""Logs on a simulated disk, for the tests of storage: make one, fill it, read it back, lose its process."""

from collections.abc import Iterable

from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.storage.log import Appended, Log
from hightide.storage.settings import LogSettings, OpenFacts
from hightide.wire.batches import build_batch
from hightide.wire.records import ControlType, Record, control_key, iterate_headers, iterate_records

DIRECTORY = "data/orders-0"
TOPIC_ID = bytes(range(16))
NOW_MS = 1_700_000_000_000
SMALL_SEGMENTS = LogSettings(segment_bytes=600, index_interval_bytes=100, file_delete_delay_ms=0)


def new_disk() -> SimulatedDisk:
    """A disk with an empty log directory."""
    disk = SimulatedDisk(now_ms=lambda: NOW_MS)
    disk.make_directory("data")
    disk.sync_directory(".")
    return disk


def open_log(
    disk: SimulatedDisk, settings: LogSettings = SMALL_SEGMENTS, facts: OpenFacts | None = None, rules: Rules = ALL_ON
) -> Log:
    """The log of these tests."""
    return Log.open(
        disk, DIRECTORY, "orders", 0, TOPIC_ID, settings, facts=facts or OpenFacts(), now_ms=NOW_MS, rules=rules
    )


def batch(*values: bytes, timestamp: int = NOW_MS, producer: int = -1, epoch: int = 0, sequence: int = 0) -> bytearray:
    """A client's batch with these values."""
    records = [Record(timestamp=timestamp, value=value) for value in values]
    if producer < 0:
        return build_batch(records)
    return build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


def append(log: Log, *values: bytes, leader_epoch: int = 0, timestamp: int = NOW_MS) -> Appended:
    """Append one batch of these values."""
    return log.append_as_leader(memoryview(batch(*values, timestamp=timestamp)), leader_epoch, NOW_MS)


def fill(log: Log, count: int, leader_epoch: int = 0) -> None:
    """Append batches of one record, whose value tells its offset."""
    for _ in range(count):
        append(log, b"value-%d" % log.end, leader_epoch=leader_epoch)


def marker(producer: int, *, commit: bool, epoch: int = 0) -> bytearray:
    """The control batch that ends a transaction."""
    kind = ControlType.COMMIT if commit else ControlType.ABORT
    record = Record(timestamp=NOW_MS, key=control_key(kind), value=b"\x00\x00\x00\x00\x00\x07")
    return build_batch([record], producer_id=producer, producer_epoch=epoch, transactional=True, control=True)


def transactional(producer: int, sequence: int, *values: bytes) -> bytearray:
    """A batch inside of a transaction."""
    records = [Record(timestamp=NOW_MS, value=value) for value in values]
    return build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence, transactional=True)


def read_records(log: Log, offset: int | None = None, max_bytes: int = 300) -> list[Record]:
    """Everything from an offset (the start) to the end, fetched as a consumer would."""
    position = log.start if offset is None else offset
    first = position
    records: list[Record] = []
    while position < log.end:
        read = log.read(position, max_bytes, upper_bound=log.end, min_one_batch=True)
        assert read is not None
        data = read.slice.read()
        read.slice.release()
        assert len(data) == read.slice.length
        for at, header in iterate_headers(data):
            records += [record for record in iterate_records(data, at, header) if record.offset >= first]
            position = header.next_offset
        assert position == read.end
    return records


def values(records: Iterable[Record]) -> dict[int, bytes | None]:
    """Offset to value."""
    return {record.offset: record.value for record in records}


def contents(log: Log) -> dict[int, bytes | None]:
    """What a consumer sees."""
    return values(read_records(log))


def sync(log: Log) -> bool:
    """One group commit."""
    plan = log.unsynced_files()
    for file in plan.files:
        file.sync()
    return log.synced(plan)


def numbered(start: int, end: int) -> dict[int, bytes | None]:
    """What `fill` leaves in [start, end)."""
    return {offset: b"value-%d" % offset for offset in range(start, end)}
