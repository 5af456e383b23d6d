"""fsync that takes virtual time.

What a sync covers is a matter of luck within the law: it may reach the disk when it begins, and then covers only what
was written by then, or when it ends, and then a power loss meanwhile meets everything. Both are tried.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from hightide.errors import StorageError
from hightide.storage.files import Syncable

if TYPE_CHECKING:
    from hightide.sim.loop import SimulatedLoop

SYNC_SECONDS = (0.0002, 0.004)  # a good solid-state disk
Done = Callable[[Exception | None], None]


class DiskSpeed:
    """How long an fsync of a machine takes; faults change it."""

    __slots__ = ("sync_seconds",)

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """A good disk."""
        self.sync_seconds = SYNC_SECONDS


class SimulatedSyncer:
    """`node.ports.Syncer` of one process."""

    def __init__(self, loop: "SimulatedLoop", random: Random, speed: DiskSpeed) -> None:
        self._loop = loop
        self._draw = random.random
        self._speed = speed

    def sync(self, files: Sequence[Syncable], done: Done) -> None:
        """Sync them all, then call `done`."""
        low, high = self._speed.sync_seconds
        seconds = low + (high - low) * self._draw()
        if not files:
            self._loop.call_soon(done, None)
        elif self._draw() < 0.5:
            self._loop.after(seconds, done, _sync(files))
        else:
            self._loop.after(seconds, self._finish, files, done)

    def _finish(self, files: Sequence[Syncable], done: Done) -> None:
        done(_sync(files))


def _sync(files: Sequence[Syncable]) -> Exception | None:
    error: Exception | None = None
    for file in files:
        try:
            file.sync()
        except (OSError, StorageError) as caught:
            error = error or caught
    return error
