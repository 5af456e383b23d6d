"""How far each log is known to be on stable storage: one append-only file per log directory (R17).

After every group commit the new synced ends are appended, each entry under its own CRC, and the file is synced at most
10 ms later; acknowledgements do not wait for it. What an entry promises lets recovery tell a torn tail, which it may
cut, from corruption, which it may not. A truncation first lowers its entry, durably (`lower`). The last whole entry of
a log counts; broken ones are skipped, because a power loss may write the last ones in any order, and a lower promise is
a safe one.

When the file has grown, its live entries are written to a new one that takes its place in three syncs, none of which
the caller waits for: until the new name is durable, entries go to both.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple, Self

from hightide.errors import CorruptionError
from hightide.limits import SYNCED_ENDS_BYTES_MAX
from hightide.rules import ALL_ON, Rules
from hightide.storage.checkpoints import TEMPORARY_SUFFIX, parent_of, read_file, write_atomically, write_in_place
from hightide.storage.files import File, Files, Syncable
from hightide.types import PartitionKey
from hightide.wire.checksum import crc32c

HEADER = b"hightide synced ends, version 1\n"
_BODY = Struct(">16siqq")
_CRC = Struct(">I")
ENTRY_BYTES = _BODY.size + _CRC.size
_DELETED = -1
_GROWTH = 4  # a file is rewritten when that many times larger than its live entries: the work stays in proportion


class Entry(NamedTuple):
    """Everything of this log below `end` is on stable storage, unless a later entry says otherwise."""

    key: PartitionKey
    generation: int
    end: int

    def encode(self) -> bytes:
        """Its bytes in the file."""
        body = _BODY.pack(*self.key, self.generation, self.end)
        return body + _CRC.pack(crc32c(body))


def read_entries(data: bytes, path: str) -> Iterator[Entry]:
    """All whole entries, oldest first; CorruptionError when it is not such a file."""
    if not data.startswith(HEADER):
        raise CorruptionError(f"{path} can't be read: it does not begin with {HEADER.decode().strip()!r}")
    for position in range(len(HEADER), len(data) - ENTRY_BYTES + 1, ENTRY_BYTES):
        body = data[position : position + _BODY.size]
        if _CRC.unpack_from(data, position + _BODY.size)[0] == crc32c(body):
            topic_id, partition, generation, end = _BODY.unpack(body)
            yield Entry(PartitionKey(topic_id, partition), generation, end)


class _DirectorySync:
    """The directory's own fsync, as something a Syncer takes."""

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self._path = path

    def sync(self) -> None:
        self._files.sync_directory(self._path)


class SyncedEnds:
    """The file and its newest entries.

    `record` and `write` after a group commit; `unsynced` to a Syncer within 10 ms, then `synced`, one at a time. A
    failed write or sync takes the directory offline like any other (R10).
    """

    def __init__(self, files: Files, path: str, entries: dict[PartitionKey, Entry]) -> None:
        self._files = files
        self._path = path
        self._entries = entries
        self._buffer: list[bytes] = []
        self._file = files.open(path)
        self._position = len(HEADER) + ENTRY_BYTES * len(entries)
        self._successor: File | None = None  # the new file, while it takes the place of the old one
        self._successor_position = 0
        self._planned: File | None = None  # the successor that the sync under way covers
        self._is_renamed = False
        self.needs_sync = False

    @classmethod
    def open(cls, files: Files, path: str, rules: Rules = ALL_ON) -> Self:
        """What the file says, written anew: bytes that an earlier process failed to sync only look durable (R19).

        Generations count truncations within one process life, so they begin again. FileNotFoundError without a file.
        """
        newest: dict[PartitionKey, Entry] = {}
        data = read_file(files, path)
        for entry in read_entries(data, path):
            if entry.end == _DELETED:
                newest.pop(entry.key, None)
            else:
                newest[entry.key] = entry._replace(generation=0)
        if data != HEADER:
            write_atomically(files, path, _whole(newest), rules)
        return cls(files, path, newest)

    def end(self, key: PartitionKey) -> int:
        """The recorded synced end of a log; 0 when nothing is recorded."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.end

    def record(self, key: PartitionKey, generation: int, end: int) -> None:
        """A group commit reached `end`. What was synced before the log's last truncation counts no more (R19)."""
        before = self._entries.get(key)
        if before is not None and (
            generation < before.generation or (end, generation) == (before.end, before.generation)
        ):
            return
        entry = self._entries[key] = Entry(key, generation, end)
        self._buffer.append(entry.encode())

    def write(self) -> None:
        """Give the recorded ends to the operating system, in one write."""
        if not self._buffer:
            return
        self._append(b"".join(self._buffer))
        self._buffer.clear()
        self.needs_sync = True
        if self._successor is None and self._position > SYNCED_ENDS_BYTES_MAX + _GROWTH * ENTRY_BYTES * len(
            self._entries
        ):
            self._begin_rewrite()

    def unsynced(self) -> list[Syncable]:
        """What a Syncer must sync now for everything written to last."""
        self.needs_sync = False
        self._planned = self._successor
        return self._targets()

    def _targets(self) -> list[Syncable]:
        targets: list[Syncable] = [self._file]
        if self._is_renamed:
            targets.append(_DirectorySync(self._files, parent_of(self._path)))
        if self._successor is not None:
            targets.append(self._successor)
        return targets

    def synced(self) -> None:
        """What `unsynced` gave last was synced."""
        if self._planned is None:
            return
        if not self._is_renamed:
            self._files.rename(self._path + TEMPORARY_SUFFIX, self._path)
            self._is_renamed = True
            self.needs_sync = True
            return
        self._file.close()
        self._file = self._planned
        self._position = self._successor_position
        self._successor = self._planned = None
        self._is_renamed = False

    def lower(self, key: PartitionKey, generation: int, end: int) -> None:
        """Before a truncation to `end`: durable when this returns. `generation` is the one the truncation begins."""
        if self.end(key) > end:
            entry = self._entries[key] = Entry(key, generation, end)
            self._buffer.append(entry.encode())
        if self._buffer or self.needs_sync:
            self.sync()

    def sync(self) -> None:
        """Sync now, in the caller's thread, before a truncation and at the end; a Syncer may be at it meanwhile."""
        self.write()
        for target in self._targets():
            target.sync()
        self.needs_sync = False

    def forget(self, key: PartitionKey) -> None:
        """The log is deleted. Its last entry says so; if that is lost, a promise to nobody stays behind."""
        if self._entries.pop(key, None) is not None:
            self._buffer.append(Entry(key, 0, _DELETED).encode())

    def close(self) -> None:
        """Release the file; syncs nothing."""
        self._file.close()
        if self._successor is not None:
            self._successor.close()

    def _append(self, data: bytes) -> None:
        self._file.write_at(data, self._position)
        self._position += len(data)
        if self._successor is not None:
            # Where the last whole write ended, not at the end of the file: a full disk takes half an entry.
            self._successor.write_at(data, self._successor_position)
            self._successor_position += len(data)

    def _begin_rewrite(self) -> None:
        successor = self._files.open(self._path + TEMPORARY_SUFFIX, create=True)
        entries = _whole(self._entries)
        try:
            successor.truncate(0)
            successor.write_at(entries, 0)
        except OSError:
            successor.close()
            raise
        self._successor = successor
        self._successor_position = len(entries)


def create_synced_ends(files: Files, path: str) -> None:
    """A file without entries, for a new directory."""
    write_in_place(files, path, HEADER)


def _whole(entries: dict[PartitionKey, Entry]) -> bytes:
    return HEADER + b"".join([entry.encode() for entry in entries.values()])
