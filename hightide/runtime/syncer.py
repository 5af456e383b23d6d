"""fsync away from the event loop, in a few threads: of everything, or of what the kernel does not do by itself.

The node keeps at most one sync under way per log directory, so the queue is bounded by the number of files of one
group commit. Several threads serve one group commit because the disk overlaps them.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from hightide.errors import StorageError
from hightide.storage.files import Syncable

THREADS = 4


class _Batch:
    """One call of `sync`: counts down and reports once, on the loop."""

    __slots__ = ("_done", "_error", "_left", "_lock")

    def __init__(self, count: int, done: Callable[[Exception | None], None]) -> None:
        self._left = count
        self._done = done
        self._error: Exception | None = None
        self._lock = threading.Lock()

    def finished(self, error: Exception | None) -> Callable[[], None] | None:
        """One file is done; the last one returns the report to make."""
        with self._lock:
            self._left -= 1
            self._error = self._error or error
            if self._left:
                return None
        return lambda: self._done(self._error)


class ThreadSyncer:
    """`node.ports.Syncer` with a fixed number of daemon threads, started when first needed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, means: str = "threads") -> None:
        self.means = means  # who syncs, and why not somebody better: for the log
        self._loop = loop
        self._queue: SimpleQueue[tuple[Syncable, _Batch] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def sync(self, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        """Sync them all, then call `done` on the loop."""
        while len(self._threads) < min(THREADS, len(files)):
            thread = threading.Thread(target=self._work, name=f"fsync-{len(self._threads)}", daemon=True)
            thread.start()
            self._threads.append(thread)
        if not files:
            self._loop.call_soon(done, None)
            return
        batch = _Batch(len(files), done)
        for file in files:
            self._queue.put((file, batch))

    def close(self) -> None:
        """Let the threads end after what they have."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            file, batch = job
            error: Exception | None = None
            try:
                file.sync()
            except (OSError, StorageError) as caught:
                error = caught
            report = batch.finished(error)
            if report is not None:
                try:
                    self._loop.call_soon_threadsafe(report)
                except RuntimeError:  # the loop was closed while we were syncing: nobody is left to tell
                    return
