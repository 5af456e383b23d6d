"""One open file of the operating system, behind `storage.files.File`.

Everything is one system call where it can be: `pread` and `pwrite` with positions, `fdatasync` for data.
"""

import errno
import os
from typing import Final

from hightide.runtime.room import make_room

_CLOSED: Final = -1
# macOS has none of these: there fsync does both, blocks are reserved by nobody and reads are not foreseen.
_sync_data: Final = getattr(os, "fdatasync", os.fsync)
_reserve: Final = getattr(os, "posix_fallocate", None)
_advise: Final = getattr(os, "posix_fadvise", None)


class OsFile:
    """One open descriptor. A closed file fails with EBADF, never with somebody else's descriptor."""

    __slots__ = ("_descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> int:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            return self._write_rest(memoryview(data), position, written)
        return written

    def _write_rest(self, data: memoryview, position: int, written: int) -> int:
        # A short write is a full disk, a quota or a signal: the next call tells which by raising, or goes on.
        while written < len(data):
            step = os.pwrite(self._descriptor, data[written:], position + written)
            if step == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            written += step
        return written

    def read_at(self, position: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, position)
        if len(data) == length or not data:
            return data
        return self._read_rest(data, position, length)

    def _read_rest(self, data: bytes, position: int, length: int) -> bytes:
        parts = [data]
        have = len(data)
        while have < length and (data := os.pread(self._descriptor, length - have, position + have)):
            parts.append(data)
            have += len(data)
        return b"".join(parts)

    def expect(self, position: int, length: int) -> None:
        if _advise is not None:
            _advise(self._descriptor, position, length, os.POSIX_FADV_WILLNEED)

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def allocate(self, size: int) -> None:
        if size <= 0:
            return
        if _reserve is not None:
            _reserve(self._descriptor, 0, size)
        elif self.size() < size:
            self.truncate(size)

    def make_room(self, position: int, length: int) -> None:
        make_room(self._descriptor, position, length)

    def sync(self) -> None:
        try:
            _sync_data(self._descriptor)
        except ValueError as error:  # what Python says of -1 here, and nobody expects of a disk
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self.path) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"OsFile({self.path!r})"
