"""The operating system's file system behind `storage.files.Files`.

Open files are in `runtime.file`. Descriptors are close-on-exec, so that helper processes inherit none.
"""

import os
import resource
from threading import Lock

from hightide.limits import DESCRIPTORS_KEPT
from hightide.runtime.file import OsFile
from hightide.storage.files import File

_OPEN = os.O_RDWR | os.O_CLOEXEC
_CREATE = _OPEN | os.O_CREAT
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


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
