"""The operating system's file system behind `storage.files.Files`.

Everything is one system call where it can be: `pread` and `pwrite` with positions, `fdatasync` for data, `fsync` for
directories. Descriptors are close-on-exec, so that helper processes inherit none.
"""

import errno
import os
import resource
from threading import Lock

from hightide.limits import DESCRIPTORS_KEPT
from hightide.storage.files import File

_OPEN = os.O_RDWR | os.O_CLOEXEC
_CREATE = _OPEN | os.O_CREAT
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_CLOSED = -1
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
# macOS has none of these: there fsync does both, blocks are reserved by nobody and reads are not foreseen.
_sync_data = getattr(os, "fdatasync", os.fsync)
_reserve = getattr(os, "posix_fallocate", None)
_advise = getattr(os, "posix_fadvise", None)


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

    def sync(self) -> None:
        _sync_data(self._descriptor)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, _CLOSED
        if descriptor != _CLOSED:
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"OsFile({self.path!r})"


class OsFiles:
    """The file system of the machine."""

    def open(self, path: str, *, create: bool = False) -> File:
        return OsFile(path, os.open(path, _CREATE if create else _OPEN, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def list(self, directory: str) -> list[str]:
        return sorted(os.listdir(directory))

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, old: str, new: str) -> None:
        os.replace(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        # shutil.rmtree drags in every compression module of the standard library, which start-up would pay for.
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    self.remove_directory(entry.path)
                else:
                    os.unlink(entry.path)
        os.rmdir(path)

    def sync_directory(self, path: str) -> None:
        descriptor = os.open(path, _DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def free_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_bavail * status.f_frsize

    def total_bytes(self, path: str) -> int:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize

    def capacity_bytes(self, path: str) -> tuple[int, int]:
        status = os.statvfs(path)
        return status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize

    def spare_descriptors(self) -> int:
        """Numbers are given out from below, so the next one tells about how many are in use."""
        allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            probe = os.open("/", _DIRECTORY)
        except OSError:
            return 0
        os.close(probe)
        return allowed - min(DESCRIPTORS_KEPT, allowed // 2) - probe

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def boot_id(self) -> str:
        """Empty where the system does not tell: then every start without a clean mark counts as unclean."""
        try:
            with open(_BOOT_ID, encoding="ascii") as file:
                return file.read().strip()
        except OSError:
            return ""

    def mutex(self) -> Lock:
        return Lock()
