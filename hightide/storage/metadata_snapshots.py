"""Snapshots of the metadata log: files beside its segments that stand for everything below their end.

The format and the names are Kafka's: `<end offset>-<epoch>.checkpoint` holds record batches with offsets of their own
from 0 on, the first a control batch with a SnapshotHeader, the last one with a SnapshotFooter, all of them with the
leader epoch of the last record that the snapshot stands for.

R18: a snapshot is written beside its place (`.part`), synced, renamed, and the directory synced. It is believed only
as a whole: every batch's checksum, the chain of offsets, header and footer are checked whenever it is read. What a
record means is not known here: values go in and come out as bytes.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hightide.errors import CorruptionError, ProtocolError
from hightide.limits import METADATA_BATCH_BYTES_MAX, RECOVERY_SCAN_BYTES
from hightide.rules import ALL_ON, Rules
from hightide.storage.files import File, Files
from hightide.types import NO_TIMESTAMP
from hightide.wire.batches import build_batch
from hightide.wire.message import Message
from hightide.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from hightide.wire.records import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    BatchHeader,
    ControlType,
    Record,
    control_key,
    control_type_of,
    crc_ok,
    iterate_records,
    read_header,
)

SUFFIX = ".checkpoint"
PART_SUFFIX = ".checkpoint.part"
_END_DIGITS, _EPOCH_DIGITS = 20, 10
_HEADER_VERSION = 0
_OPENING_BYTES = 4096  # more than a header batch has


class StoredSnapshot(NamedTuple):
    """The state after every record below `end`, the last of which was written in `epoch`, at `timestamp`."""

    end: int
    epoch: int
    size: int
    timestamp: int

    @property
    def name(self) -> str:
        """Its file."""
        return snapshot_name(self.end, self.epoch)


def snapshot_name(end: int, epoch: int) -> str:
    """The file name of a snapshot."""
    return f"{end:0{_END_DIGITS}d}-{epoch:0{_EPOCH_DIGITS}d}{SUFFIX}"


def parse_name(name: str) -> tuple[int, int] | None:
    """(end, epoch) of a snapshot's file name; None for any other."""
    end, dash, epoch = name.removesuffix(SUFFIX).partition("-")
    if not name.endswith(SUFFIX) or not dash or (len(end), len(epoch)) != (_END_DIGITS, _EPOCH_DIGITS):
        return None
    return (int(end), int(epoch)) if (end + epoch).isdecimal() and (end + epoch).isascii() else None


class SnapshotPart:
    """A snapshot that does not count yet: on its way from memory or from another node to its place.

    `publish` may be called from any thread, and only once; everything else belongs to the loop.
    """

    def __init__(self, files: Files, directory: str, end: int, epoch: int, number: int, rules: Rules) -> None:
        self._files = files
        self._directory = directory
        self._place = f"{directory}/{snapshot_name(end, epoch)}"
        self._is_atomic = rules.r18_atomic_checkpoints
        path = self._place.removesuffix(SUFFIX) + f"-{number}{PART_SUFFIX}" if self._is_atomic else self._place
        self._file: File = files.open(path, create=True)
        self.end = end
        self.epoch = epoch
        self.size = 0

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Put bytes behind those that are there."""
        self.size += self._file.write_at(data, self.size)

    def sync(self) -> None:
        """Make the bytes last; the name does not count yet."""
        if self._is_atomic:
            self._file.sync()

    def publish(self) -> None:
        """Give it its name, for good when this returns. The bytes were synced before."""
        self._file.close()
        if self._is_atomic:
            self._files.rename(self._file.path, self._place)
            self._files.sync_directory(self._directory)

    def discard(self) -> None:
        """It is not wanted, or can't be finished; a file that stays is removed by the next start."""
        self._file.close()
        try:
            self._files.remove(self._file.path)
        except FileNotFoundError:
            return


class SnapshotWriter:
    """Fills a part with batches: a header at once, then values, then `finish`."""

    def __init__(self, part: SnapshotPart, timestamp: int) -> None:
        self.part = part
        self.timestamp = timestamp
        self._offset = 0
        header = SnapshotHeaderRecord(version=_HEADER_VERSION, last_contained_log_timestamp=timestamp)
        self._write_control(ControlType.SNAPSHOT_HEADER, header)

    def append(self, values: Iterable[bytes]) -> None:
        """One batch of record values, at least one."""
        self._write([Record(timestamp=self.timestamp, value=value) for value in values], control=False)

    def finish(self) -> StoredSnapshot:
        """The footer: nothing follows."""
        self._write_control(ControlType.SNAPSHOT_FOOTER, SnapshotFooterRecord(version=_HEADER_VERSION))
        return StoredSnapshot(self.part.end, self.part.epoch, self.part.size, self.timestamp)

    def _write_control(self, kind: ControlType, message: Message) -> None:
        value = message.encode(_HEADER_VERSION)
        self._write([Record(timestamp=self.timestamp, key=control_key(kind), value=value)], control=True)

    def _write(self, records: list[Record], *, control: bool) -> None:
        batch = build_batch(records, base_offset=self._offset, leader_epoch=self.part.epoch, control=control)
        self.part.write(batch)
        self._offset += len(records)


class SnapshotReader:
    """Checks a snapshot while its bytes come in, in pieces of any size. Nothing counts before `finish` returned."""

    def __init__(self, end: int, epoch: int, place: str) -> None:
        self.end = end
        self.epoch = epoch
        self.size = 0
        self.timestamp = NO_TIMESTAMP
        self._place = place
        self._buffer = bytearray()
        self._offset = 0
        self._has_header = self._has_footer = False

    def feed(self, data: bytes | memoryview) -> Iterator[list[bytes]]:
        """The record values of each batch that these bytes complete; CorruptionError at the first bad one."""
        self._buffer += data
        self.size += len(data)
        position = 0
        try:
            while (header := self._next_header(position)) is not None:
                batch = bytes(self._buffer[position : position + header.size])
                position += header.size
                values = self._values(batch, header)
                self._offset = header.next_offset
                if values:
                    yield values
        except ProtocolError as error:
            raise CorruptionError(f"{self._place} can't be read: {error}") from error
        del self._buffer[:position]

    def finish(self) -> StoredSnapshot:
        """There are no more bytes; CorruptionError when that is too early."""
        if self._buffer or not self._has_footer:
            raise CorruptionError(f"{self._place} can't be read: it is cut off after {self.size} bytes")
        return StoredSnapshot(self.end, self.epoch, self.size, self.timestamp)

    def _next_header(self, position: int) -> BatchHeader | None:
        """The next batch if all of it is here, checked."""
        left = len(self._buffer) - position
        if self._has_footer and left:
            raise ProtocolError("there are bytes behind its footer")
        if left < HEADER_BYTES:
            return None
        header = read_header(self._buffer, position)
        if not HEADER_BYTES - LENGTH_OVERHEAD <= header.batch_length <= METADATA_BATCH_BYTES_MAX:
            raise ProtocolError(f"a batch of {header.batch_length} bytes can't be")
        if left < header.size:
            return None
        if header.magic != MAGIC or not crc_ok(self._buffer, position, header):
            raise ProtocolError(f"the checksum of the batch at offset {self._offset} does not fit")
        if (header.base_offset, header.partition_leader_epoch) != (self._offset, self.epoch):
            raise ProtocolError(f"a batch with offset {header.base_offset} stands where {self._offset} should follow")
        if header.record_count != header.last_offset_delta + 1:
            raise ProtocolError(f"the batch at offset {self._offset} has gaps")
        return header

    def _values(self, batch: bytes, header: BatchHeader) -> list[bytes]:
        records = list(iterate_records(batch, 0, header))
        if header.is_control:
            for record in records:
                self._take_control(record)
            return []
        if not self._has_header:
            raise ProtocolError("it begins without its header")
        return [record.value or b"" for record in records]

    def _take_control(self, record: Record) -> None:
        kind = control_type_of(record.key)
        if kind is ControlType.SNAPSHOT_HEADER and record.offset == 0:
            self.timestamp = SnapshotHeaderRecord.decode(record.value or b"", 0).last_contained_log_timestamp
            self._has_header = True
        elif kind is ControlType.SNAPSHOT_FOOTER and self._has_header:
            self._has_footer = True
        else:
            raise ProtocolError(f"a control record of type {kind} is not expected at offset {record.offset}")


class SnapshotStore:
    """The snapshots of one metadata log, oldest first in `snapshots`."""

    def __init__(self, files: Files, directory: str, rules: Rules = ALL_ON) -> None:
        self._files = files
        self._directory = directory
        self._rules = rules
        self._parts = 0
        self.snapshots: list[StoredSnapshot] = []

    def open(self) -> None:
        """Find what is there; what a former life did not finish goes."""
        for name in self._files.list(self._directory):
            found = parse_name(name)
            if found is not None:
                self.snapshots.append(self._described(*found))
            elif name.endswith(PART_SUFFIX):
                self._files.remove(f"{self._directory}/{name}")

    def _described(self, end: int, epoch: int) -> StoredSnapshot:
        """Size and time; one whose header can't be read has no time, and fails when it is wanted."""
        path = f"{self._directory}/{snapshot_name(end, epoch)}"
        file = self._files.open(path)
        try:
            size, opening = file.size(), file.read_at(0, _OPENING_BYTES)
        finally:
            file.close()
        reader = SnapshotReader(end, epoch, path)
        try:
            for _ in reader.feed(opening):
                break
        except CorruptionError:
            return StoredSnapshot(end, epoch, size, NO_TIMESTAMP)
        return StoredSnapshot(end, epoch, size, reader.timestamp)

    @property
    def newest(self) -> StoredSnapshot | None:
        """The one that tells the most."""
        return self.snapshots[-1] if self.snapshots else None

    @property
    def size_bytes(self) -> int:
        """Of all of them."""
        return sum(snapshot.size for snapshot in self.snapshots)

    def find(self, end: int, epoch: int) -> StoredSnapshot | None:
        """One by its name."""
        for snapshot in self.snapshots:
            if (snapshot.end, snapshot.epoch) == (end, epoch):
                return snapshot
        return None

    def begin(self, end: int, epoch: int) -> SnapshotPart:
        """A new one, empty."""
        self._parts += 1
        return SnapshotPart(self._files, self._directory, end, epoch, self._parts, self._rules)

    def add(self, snapshot: StoredSnapshot) -> None:
        """A part was published."""
        others = [other for other in self.snapshots if other.name != snapshot.name]
        self.snapshots = sorted([*others, snapshot])

    def forget(self, snapshot: StoredSnapshot) -> None:
        """Use it no more. Its file stays, for people to look at."""
        self.snapshots.remove(snapshot)

    def remove_below(self, end: int) -> None:
        """Remove those that a log that starts at `end` does not stand on. If a name comes back, it goes next time."""
        for snapshot in [snapshot for snapshot in self.snapshots if snapshot.end < end]:
            self._files.remove(f"{self._directory}/{snapshot.name}")
            self.snapshots.remove(snapshot)

    def read_piece(self, snapshot: StoredSnapshot, position: int, length: int) -> bytes:
        """Raw bytes, for another node."""
        file = self._files.open(f"{self._directory}/{snapshot.name}")
        try:
            return file.read_at(position, length)
        finally:
            file.close()

    def batches(self, snapshot: StoredSnapshot) -> Iterator[list[bytes]]:
        """The record values, batch by batch; CorruptionError, at the end at the latest, when it is not whole."""
        path = f"{self._directory}/{snapshot.name}"
        reader = SnapshotReader(snapshot.end, snapshot.epoch, path)
        file = self._files.open(path)
        try:
            while data := file.read_at(reader.size, RECOVERY_SCAN_BYTES):
                yield from reader.feed(data)
        finally:
            file.close()
        reader.finish()
