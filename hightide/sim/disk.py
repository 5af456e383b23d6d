"""A disk in memory that forgets, tears and fails: the faulty twin of `runtime.files` for tests and the simulator.

Each file has two images, what the process sees and what is on stable storage, and the list of writes between them; each
directory has the same for its names. `kill` leaves what the process saw. `power_loss` leaves what was synced plus, for
every write since, one of: lost, kept, torn (a prefix, any set of sectors, or only the new length with zeros); and of
every name created, renamed or removed since the last `sync_directory`: lost or kept. A sync that was told to fail drops
what it should have written but shows it still, so that the next sync lies (R19). The same calls and the same seed give
the same disk.

A little long because every call of `Files` is here, and where it counts, crashes and fails must be seen at the call.
"""

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from fnmatch import fnmatchcase
from random import Random

from hightide.sim.images import OUTCOMES, Content, Directory, change, walk
from hightide.storage.files import File

_UNBOUNDED_BYTES = 1 << 50


class SimulatedCrash(BaseException):
    """The process died here. Everything it still tries on this disk raises it again, until `kill` or `power_loss`."""


class Fault:
    """An operation that will fail: which, on what paths, how, after how many that succeed, how often."""

    __slots__ = ("errno", "keep", "operation", "pattern", "skip", "times")

    def __init__(self, operation: str, pattern: str, code: int, skip: int, times: int, keep: int) -> None:
        self.operation = operation
        self.pattern = pattern
        self.errno = code
        self.skip = skip
        self.times = times
        self.keep = keep

    def strikes(self, operation: str, path: str) -> bool:
        """Whether this call fails; counts it."""
        if self.operation != operation or self.times == 0 or not fnmatchcase(path, self.pattern):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        self.times -= 1
        return True


def _failure(code: int, path: str) -> OSError:
    return OSError(code, os.strerror(code), path)


class SimulatedFile:
    """An open file on a simulated disk; it dies with the process that opened it."""

    __slots__ = ("_content", "_disk", "_life", "path")

    def __init__(self, disk: "SimulatedDisk", path: str, content: Content) -> None:
        self.path = path
        self._disk = disk
        self._content = content
        self._life = disk.life

    def _alive(self) -> None:
        if self._life != self._disk.life:
            raise _failure(errno.EBADF, self.path)

    def fileno(self) -> int:
        raise _failure(errno.ENOTSUP, self.path)

    def size(self) -> int:
        self._alive()
        return len(self._content.seen)

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> int:
        self._alive()
        data = bytes(data)
        self._disk.write(self._content, self.path, data, position)
        return len(data)

    def read_at(self, position: int, length: int) -> bytes:
        self._alive()
        self._disk.reading(self.path)
        return bytes(self._content.seen[position : position + length])

    def make_room(self, position: int, length: int) -> None:
        pass  # nothing is promised

    def expect(self, position: int, length: int) -> None:  # noqa: ARG002
        self._alive()

    def truncate(self, size: int) -> None:
        self._alive()
        self._disk.truncate(self._content, self.path, size)

    def allocate(self, size: int) -> None:
        self._alive()
        self._disk.allocate(self._content, self.path, size)

    def sync(self) -> None:
        self._alive()
        self._disk.sync(self._content, self.path)

    def close(self) -> None:
        self._life = -1

    def __repr__(self) -> str:
        return f"SimulatedFile({self.path!r})"


class SimulatedDisk:
    """A whole file system with its faults. Operations that change something are counted, for `crash_at`."""

    def __init__(self, *, capacity: int | None = None, now_ms: Callable[[], int] = lambda: 0) -> None:
        self.capacity = capacity
        self.life = 0  # processes that have used this disk before
        self.boots = 0
        self.operations = 0
        self.trace: list[tuple[str, str]] | None = None  # set to a list to record every counted operation
        self.on_sync: Callable[[str], None] | None = None  # a slow fsync: called first, may wait or raise
        self.on_crash: Callable[[], None] | None = None  # called when a planned crash has come
        self._now_ms = now_ms
        self._root = Directory()
        self._faults: list[Fault] = []
        self._crash_at = 0
        self._crash_share = 0.0
        self._crashed = False

    # Faults.

    def crash_at(self, operation: int, share: float = 0.0) -> None:
        """The process dies in its n-th counted operation from now; a write gets that share of its bytes out first.

        0 takes a planned crash back.
        """
        self._crash_at = self.operations + operation
        self._crash_share = share

    def crash(self) -> None:
        """The process is dying: everything it still tries raises, until `kill` or `power_loss`."""
        self._crashed = True

    def fail(
        self, operation: str, pattern: str = "*", *, code: int = errno.EIO, skip: int = 0, times: int = 1, keep: int = 0
    ) -> Fault:
        """Let calls fail; `times` -1 is for ever; of a failing write `keep` bytes still arrive (a short write)."""
        fault = Fault(operation, pattern, code, skip, times, keep)
        self._faults.append(fault)
        return fault

    def heal(self) -> None:
        """No more failures. What they did stays."""
        self._faults.clear()

    def kill(self) -> None:
        """The process is gone, the operating system lives: everything written stays, synced or not."""
        self.life += 1
        if self._crashed:
            self._crashed = False
            self._crash_at = 0

    def power_loss(self, rng: Random | int, outcomes: tuple[str, ...] = OUTCOMES) -> None:
        """The machine is gone. What was not synced meets one of `outcomes` each."""
        self.kill()
        self.boots += 1
        self._root.lose_power(rng if isinstance(rng, Random) else Random(rng), outcomes)

    def flip(self, path: str, position: int, mask: int = 1) -> None:
        """Bits of a stored byte turn, in memory and on the platter alike."""
        content = self._file(path)
        for image in (content.seen, content.synced):
            if position < len(image):
                image[position] ^= mask

    def overwrite(self, path: str, data: bytes) -> None:
        """Something else than the process left these bytes in a file: a stale block, zeros, half a file."""
        content = self._file(path)
        content.pending.clear()
        content.seen[:] = data
        content.synced[:] = data
        content.reserved = len(data)

    def lose(self, path: str) -> None:
        """A file is gone, name and all, and nobody knows why."""
        directory, name = self._parent(path)
        directory.seen.pop(name)
        directory.synced.pop(name, None)

    def image(self) -> dict[str, bytes]:
        """Every file and what a process reads in it."""
        return {path: bytes(content.seen) for path, content in walk(self._root, "")}

    def copy(self) -> "SimulatedDisk":
        """The same disk once more, without faults and open files, to try two futures."""
        twin = SimulatedDisk(capacity=self.capacity, now_ms=self._now_ms)
        twin.life, twin.boots = self.life + 1, self.boots
        twin._root = deepcopy(self._root)
        return twin

    # Files.

    def open(self, path: str, *, create: bool = False) -> File:
        self._check_alive()
        directory, name = self._parent(path)
        node = directory.seen.get(name)
        if isinstance(node, Directory):
            raise _failure(errno.EISDIR, path)
        if node is None:
            if not create:
                raise _failure(errno.ENOENT, path)
            self._step("create", path)
            node = Content()
            node.modified_ms = self._now_ms()
            directory.change({name: node})
        return SimulatedFile(self, path, node)

    def exists(self, path: str) -> bool:
        self._check_alive()
        return self._find(path) is not None

    def list(self, directory: str) -> list[str]:
        self._check_alive()
        return sorted(self._directory(directory).seen)

    def is_directory(self, path: str) -> bool:
        self._check_alive()
        return isinstance(self._find(path), Directory)

    def make_directory(self, path: str) -> None:
        self._check_alive()
        directory = self._root
        for name in _names(path):
            node = directory.seen.get(name)
            if node is None:
                self._step("make_directory", path)
                node = Directory()
                directory.change({name: node})
            elif not isinstance(node, Directory):
                raise _failure(errno.EEXIST, path)
            directory = node

    def rename(self, old: str, new: str) -> None:
        old_directory, old_name = self._parent(old)
        new_directory, new_name = self._parent(new)
        node = old_directory.seen.get(old_name)
        if node is None:
            raise _failure(errno.ENOENT, old)
        replaced = new_directory.seen.get(new_name)
        if isinstance(replaced, Directory) and replaced.seen:
            raise _failure(errno.ENOTEMPTY, new)
        self._step("rename", new)
        if old_directory is new_directory:
            old_directory.change({old_name: None, new_name: node})
        else:
            old_directory.change({old_name: None})
            new_directory.change({new_name: node})

    def remove(self, path: str) -> None:
        directory, name = self._parent(path)
        node = directory.seen.get(name)
        if not isinstance(node, Content):
            raise _failure(errno.ENOENT if node is None else errno.EISDIR, path)
        self._step("remove", path)
        directory.change({name: None})

    def remove_directory(self, path: str) -> None:
        for name in self.list(path):
            child = f"{path}/{name}"
            if self.is_directory(child):
                self.remove_directory(child)
            else:
                self.remove(child)
        directory, name = self._parent(path)
        self._step("remove_directory", path)
        directory.change({name: None})

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        self._step("sync_directory", path)
        if self.on_sync is not None:
            self.on_sync(path)
        directory.sync()

    def free_bytes(self, path: str) -> int:  # noqa: ARG002 - one disk, whatever the path
        self._check_alive()
        return _UNBOUNDED_BYTES if self.capacity is None else max(0, self.capacity - self.used_bytes())

    def total_bytes(self, path: str) -> int:  # noqa: ARG002 - one disk, whatever the path
        self._check_alive()
        return _UNBOUNDED_BYTES if self.capacity is None else self.capacity

    def capacity_bytes(self, path: str) -> tuple[int, int]:
        free = self.free_bytes(path)
        return (self.used_bytes() + free if self.capacity is None else self.capacity), free

    def spare_descriptors(self) -> int:
        return _UNBOUNDED_BYTES

    def modified_ms(self, path: str) -> int:
        self._check_alive()
        return self._file(path).modified_ms

    def boot_id(self) -> str:
        return f"boot-{self.boots}"

    def mutex(self) -> AbstractContextManager[object]:
        return nullcontext()

    # What open files ask.

    def write(self, content: Content, path: str, data: bytes, position: int) -> None:
        self._check_alive()
        try:
            fault = self._step("write", path)
        except SimulatedCrash:
            if not self._crash_share:
                raise
            self._write(content, data[: int(len(data) * self._crash_share)], position)
            raise
        if fault is not None:
            self._write(content, data[: fault.keep], position)
            raise _failure(fault.errno, path)
        room = self._room(content, position + len(data))
        if room < position + len(data):
            self._write(content, data[: max(0, room - position)], position)
            raise _failure(errno.ENOSPC, path)
        self._write(content, data, position)

    def _write(self, content: Content, data: bytes, position: int) -> None:
        if data:
            change(content.seen, position, data)
            content.pending.append((position, data))
            content.reserved = max(content.reserved, len(content.seen))
            content.modified_ms = self._now_ms()

    def reading(self, path: str) -> None:
        self._check_alive()
        if self._faults:
            self._strike("read", path)

    def truncate(self, content: Content, path: str, size: int) -> None:
        self._step("truncate", path)
        change(content.seen, size, None)
        content.pending.append((size, None))
        content.reserved = size
        content.modified_ms = self._now_ms()

    def allocate(self, content: Content, path: str, size: int) -> None:
        self._step("allocate", path)
        if self._room(content, size) < size:
            raise _failure(errno.ENOSPC, path)
        content.reserved = max(content.reserved, size)
        if size > len(content.seen):
            change(content.seen, size, None)
            content.pending.append((size, None))

    def sync(self, content: Content, path: str) -> None:
        if self.on_sync is not None:
            self._check_alive()
            self.on_sync(path)
        try:
            self._step("sync", path)
        except OSError:
            content.forget_writes()
            raise
        content.sync()

    def used_bytes(self) -> int:
        """Bytes that count against the capacity."""
        return sum(content.reserved for _, content in walk(self._root, ""))

    # Inside.

    def _room(self, content: Content, end: int) -> int:
        """How far this file may reach."""
        if self.capacity is None or end <= content.reserved:
            return end
        return content.reserved + max(0, self.capacity - self.used_bytes())

    def _check_alive(self) -> None:
        if self._crashed:
            raise SimulatedCrash

    def _step(self, operation: str, path: str) -> Fault | None:
        """Count an operation, and let it be the one that crashes or fails; a failing write is left to its caller."""
        if self._crashed:
            raise SimulatedCrash
        self.operations += 1
        if self.trace is not None:
            self.trace.append((operation, path))
        if self.operations == self._crash_at:
            self._crashed = True
            if self.on_crash is not None:
                self.on_crash()
            raise SimulatedCrash(f"operation {self.operations}: {operation} {path}")
        return self._strike(operation, path) if self._faults else None

    def _strike(self, operation: str, path: str) -> Fault | None:
        for fault in self._faults:
            if fault.strikes(operation, path):
                if operation == "write":
                    return fault
                raise _failure(fault.errno, path)
        return None

    def _find(self, path: str) -> Content | Directory | None:
        node: Content | Directory | None = self._root
        for name in _names(path):
            if not isinstance(node, Directory):
                return None
            node = node.seen.get(name)
        return node

    def _file(self, path: str) -> Content:
        node = self._find(path)
        if not isinstance(node, Content):
            raise _failure(errno.ENOENT if node is None else errno.EISDIR, path)
        return node

    def _directory(self, path: str) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise _failure(errno.ENOENT if node is None else errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        head, _, name = path.rstrip("/").rpartition("/")
        return self._directory(head), name


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name and name != "."]
