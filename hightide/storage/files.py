"""The only door to the file system: what storage asks of a disk, as a Protocol.

`runtime.files` answers with the operating system, `sim.disk` with a disk in memory that loses what was not synced,
tears writes, forgets renames, flips bits and fails. Whoever calls decides about fsync: nothing here syncs by itself.
Paths are strings with "/" and are relative to nothing: the caller joins them. Errors are `OSError`s with their errno.
"""

from contextlib import AbstractContextManager
from typing import Protocol


class Syncable(Protocol):
    """What a Syncer can make durable: a file, or a directory of one."""

    def sync(self) -> None:
        """Make it last. Blocks. A failure is final (R10)."""


class File(Protocol):
    """One open file. Reads and writes name their position; there is no cursor."""

    path: str

    def fileno(self) -> int:
        """The descriptor for sendfile; a simulated disk raises OSError."""

    def size(self) -> int:
        """Bytes in the file now."""

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> int:
        """Write all of `data` at `position`; returns bytes written; a short write raises OSError (ENOSPC)."""

    def read_at(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def expect(self, position: int, length: int) -> None:
        """These bytes will be read soon: let the disk bring them meanwhile. Returns at once and promises nothing."""

    def truncate(self, size: int) -> None:
        """Cut or zero-extend to `size`."""

    def allocate(self, size: int) -> None:
        """Reserve blocks up to `size` (posix_fallocate), so that later writes below it can't meet a full disk."""

    def make_room(self, position: int, length: int) -> None:
        """Bytes will be written there soon, behind the end: find their blocks now, at once instead of one by one.

        The size stays. Promises nothing and never fails: a write finds its own blocks where there are none.
        """

    def sync(self) -> None:
        """fdatasync. Blocks: a Syncer's threads, recovery and checkpoints call it. A failure is final (R10)."""

    def close(self) -> None:
        """Release the descriptor. Idempotent."""


class Files(Protocol):
    """A file system."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; FileNotFoundError unless `create`. Creating needs `sync_directory` to last."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory has this name."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""

    def is_directory(self, path: str) -> bool:
        """Whether it is a directory."""

    def make_directory(self, path: str) -> None:
        """Create it and its parents; no error if it exists."""

    def rename(self, old: str, new: str) -> None:
        """Replace atomically; lasts only after `sync_directory` of the parent."""

    def remove(self, path: str) -> None:
        """Unlink; open descriptors stay readable."""

    def remove_directory(self, path: str) -> None:
        """Remove it with everything in it."""

    def sync_directory(self, path: str) -> None:
        """fsync of the directory: makes creations, renames and removals in it last."""

    def free_bytes(self, path: str) -> int:
        """Bytes that an ordinary write may still use."""

    def capacity_bytes(self, path: str) -> tuple[int, int]:
        """Bytes of the whole volume, and those still free: what DescribeLogDirs reports."""

    def total_bytes(self, path: str) -> int:
        """The size of the file system, used or not."""

    def spare_descriptors(self) -> int:
        """How many files may stay open besides those that are: some are left for connections and checkpoints."""

    def modified_ms(self, path: str) -> int:
        """Wall-clock time of the last modification, in milliseconds."""

    def boot_id(self) -> str:
        """Names one life of the operating system: equal ids mean the page cache survived."""

    def mutex(self) -> AbstractContextManager[object]:
        """What keeps two threads of this world apart; a world without threads needs nothing."""


class FileSlice:
    """A range of an open file that pins it: deletion unlinks the name, the bytes stay until `release` (R21).

    The owner counts its slices; whoever received one releases it exactly once, after the bytes were sent.
    """

    __slots__ = ("_owner", "file", "length", "position")

    def __init__(self, file: File, position: int, length: int, owner: "SliceOwner | None" = None) -> None:
        self.file = file
        self.position = position
        self.length = length
        self._owner = owner
        if owner is not None:
            owner.pins += 1

    def read(self) -> bytes:
        """The bytes themselves, for TLS, tests and everything that looks inside."""
        return self.file.read_at(self.position, self.length)

    def release(self) -> None:
        """Unpin; the owner closes a removed file when its last slice goes."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.pins -= 1
            if owner.pins == 0:
                owner.on_unpinned()


class SliceOwner(Protocol):
    """What hands out slices: a segment."""

    pins: int

    def on_unpinned(self) -> None:
        """The last slice was released."""
