"""Kafka's `.snapshot` files: the producers of a partition as they were at one offset, under a CRC-32C.

Version (int16), CRC of the rest (uint32), number of entries (int32), entries. `kafka-dump-log` reads them. Kafka writes
one entry for each producer; we write one for each of its last batches, the newest last, which is the one that counts
for a reader that knows of one only.
"""

from struct import Struct
from typing import NamedTuple

from hightide.errors import CorruptionError
from hightide.storage.checkpoints import read_file
from hightide.storage.files import Files
from hightide.wire.checksum import crc32c

SNAPSHOT_SUFFIX = ".snapshot"
_VERSION = 1
_OFFSET_DIGITS = 20
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")


class SnapshotEntry(NamedTuple):
    """One batch of a producer (offset -1 when its epoch has none), and its open transaction (-1 when none)."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_start: int


def snapshot_path(directory: str, offset: int) -> str:
    """Kafka's name: the offset in 20 digits."""
    return f"{directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def list_snapshots(files: Files, directory: str) -> list[int]:
    """The offsets of all snapshots in a partition's directory, rising."""
    names = (name.removesuffix(SNAPSHOT_SUFFIX) for name in files.list(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return [int(name) for name in names if len(name) == _OFFSET_DIGITS and name.isdecimal()]


def encode_snapshot(entries: list[SnapshotEntry]) -> bytes:
    """The bytes of a snapshot file."""
    body = _COUNT.pack(len(entries)) + b"".join([_ENTRY.pack(*entry) for entry in entries])
    return _PREFIX.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(data: bytes, path: str) -> list[SnapshotEntry]:
    """The entries; CorruptionError when the bytes are anything but a whole snapshot."""
    entries_at = _PREFIX.size + _COUNT.size
    if len(data) < entries_at:
        raise CorruptionError(f"{path} can't be read: it has {len(data)} bytes")
    version, crc = _PREFIX.unpack_from(data)
    if version != _VERSION:
        raise CorruptionError(f"{path} can't be read: it has version {version}, this release reads {_VERSION}")
    if crc32c(data[_PREFIX.size :]) != crc:
        raise CorruptionError(f"{path} can't be read: its checksum does not fit")
    (count,) = _COUNT.unpack_from(data, _PREFIX.size)
    if len(data) != entries_at + count * _ENTRY.size:
        raise CorruptionError(f"{path} can't be read: {count} entries do not fit {len(data)} bytes")
    return [SnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[entries_at:])]


def read_snapshot(files: Files, path: str) -> list[SnapshotEntry]:
    """The entries of a file; CorruptionError when it is damaged."""
    return decode_snapshot(read_file(files, path), path)


def write_snapshot(files: Files, path: str, entries: list[SnapshotEntry], *, sync: bool) -> None:
    """Write a file; a torn one shows by its CRC."""
    file = files.open(path, create=True)
    try:
        file.truncate(0)
        file.write_at(encode_snapshot(entries), 0)
        if sync:
            file.sync()
    finally:
        file.close()
