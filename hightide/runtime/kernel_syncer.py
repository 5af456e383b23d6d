"""fsync away from the event loop, by the kernel where it can and by threads where it can't.

Nearly every sync is the fdatasync of an open file, and the kernel does those by itself. Threads of ours cost fifteen
futex calls and several waits for the interpreter each time, so they are left what is more than one system call:
directories, removals, publications, votes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Protocol

from hightide.limits import KERNEL_SYNCS_MAX
from hightide.runtime.file import OsFile
from hightide.runtime.syncer import ThreadSyncer
from hightide.storage.files import Syncable


class SyncCall:
    """One call of `sync`: counts down and reports once. Belongs to the loop, so it needs no lock."""

    __slots__ = ("_done", "_error", "_left", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, parts: int, done: Callable[[Exception | None], None]) -> None:
        self._loop = loop
        self._left = parts
        self._done = done
        self._error: Exception | None = None

    def finished(self, error: Exception | None) -> None:
        """One part is done; after the last one `done` hears of it, in a turn of its own: it may call `sync`."""
        self._left -= 1
        self._error = self._error or error
        if not self._left and not self._loop.is_closed():  # of a closed loop, nobody is left to tell
            self._loop.call_soon(self._done, self._error)


class SyncQueue(Protocol):
    """What syncs descriptors by itself: `kernel_queue.KernelQueue`, or one that fails when a test wants it to."""

    size: int
    descriptor: int

    def submit(self, wanted: Sequence[tuple[int, SyncCall]]) -> int:
        """Begin; how many, from the first on. 0: not that one, ever. BlockingIOError: not now."""

    def finished(self) -> list[tuple[SyncCall, OSError | None]]:
        """What is done, when `descriptor` is readable."""

    def wait(self) -> list[tuple[SyncCall, OSError | None]]:
        """What is done, once something is; none after a signal."""


class KernelSyncer:
    """`node.ports.Syncer` with a queue of the kernel, and threads for the rest.

    What the kernel took has one outcome, which is told and never tried again (R10). What it did not take, because
    the descriptor is none that it syncs, was not tried: a thread tries it, once, and tells what is wrong with it.
    """

    means = "the kernel"

    def __init__(self, loop: asyncio.AbstractEventLoop, queue: SyncQueue) -> None:
        self._loop = loop
        self._queue = queue
        self._threads = ThreadSyncer(loop)
        self._waiting: deque[tuple[OsFile, SyncCall]] = deque()  # for room in the queue
        self._under_way = 0
        self._is_watched = False
        self._is_closed = False

    def sync(self, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        """Sync them all, then call `done` on the loop."""
        if self._is_closed:
            return  # as threads that have ended: nothing is synced any more, and nobody is told that it was
        if not files:
            self._loop.call_soon(done, None)
            return
        others = [file for file in files if not isinstance(file, OsFile)]
        call = SyncCall(self._loop, len(files) - len(others) + bool(others), done)
        if others:
            self._threads.sync(others, call.finished)
        self._waiting.extend((file, call) for file in files if isinstance(file, OsFile))
        self._submit()

    def close(self) -> None:
        """Wait for everything that was asked for; the loop may have ended already."""
        self._is_closed = True
        if self._is_watched and not self._loop.is_closed():
            self._loop.remove_reader(self._queue.descriptor)
        while self._under_way:
            self._finish(self._queue.wait())
        self._threads.close()

    def _submit(self) -> None:
        """Give the kernel what it has room for: all files of a call at once."""
        while self._waiting and (room := self._queue.size - self._under_way) > 0:
            try:
                begun = self._queue.submit([(file.fileno(), call) for file, call in islice(self._waiting, room)])
            except BlockingIOError:
                if self._under_way:
                    break  # there is room again when one of those is done
                begun = 0
            for _ in range(begun):
                self._waiting.popleft()
            self._under_way += begun
            if not begun:
                file, call = self._waiting.popleft()
                self._threads.sync([file], call.finished)
        if self._under_way and not self._is_watched:
            self._is_watched = True
            self._loop.add_reader(self._queue.descriptor, self._on_finished)

    def _on_finished(self) -> None:
        self._finish(self._queue.finished())

    def _finish(self, finished: list[tuple[SyncCall, OSError | None]]) -> None:
        self._under_way -= len(finished)
        for call, error in finished:
            call.finished(error)
        self._submit()


def best_syncer(loop: asyncio.AbstractEventLoop) -> KernelSyncer | ThreadSyncer:
    """The kernel where it syncs files by itself, else threads."""
    try:
        from hightide.runtime.kernel_queue import KernelQueue

        return KernelSyncer(loop, KernelQueue(KERNEL_SYNCS_MAX))
    except (ImportError, OSError) as error:
        return ThreadSyncer(loop, f"threads: the kernel does not do it ({error})")
