"""What a node notes down now and then, so that its next start is quick and knows what must not be missing.

High watermarks, recovery points and log starts are collected on the loop and written by the syncer's threads: each is
a file replaced atomically, three syncs that the loop must not wait for. At most one such write is under way.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from hightide.errors import StorageError
from hightide.node.ports import Clock, Syncer, Timer
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Log
from hightide.storage.recovery import NO_DESCRIPTORS
from hightide.types import TopicPartition

log = logging.getLogger("hightide.checkpoints")

INTERVAL_SECONDS = 5.0  # Kafka's replica.high.watermark.checkpoint.interval.ms
SOON_SECONDS = 0.1
EPOCH_HISTORIES_PER_WRITE = 8  # each is a sync on the loop, and due once per change of epoch


class Checkpointed(Protocol):
    """A log with its high watermark: a partition or the metadata log."""

    log: Log

    @property
    def high_watermark(self) -> int:
        """Below it everything is committed."""


class _Write:
    """One set of offsets on its way to disk, as something a Syncer takes.

    They are remembered on the loop, at once, so that a truncation or deletion before the write has the last word.
    """

    def __init__(self, directory: LogDirectory, logs: Iterable[Checkpointed]) -> None:
        self._directory = directory
        recovery_points: dict[TopicPartition, int] = {}
        high_watermarks: dict[TopicPartition, int] = {}
        log_starts: dict[TopicPartition, int] = {}
        histories = EPOCH_HISTORIES_PER_WRITE
        for member in logs:
            log = member.log
            key = TopicPartition(log.topic, log.partition)
            # R3: a recovery point passes no epoch that is not on disk; the others' wait for a later turn.
            if log.epochs.unwritten and histories:
                histories -= 1
                directory.guarded(log.write_checkpoints)
            if not log.epochs.unwritten:
                recovery_points[key] = log.synced_end
            high_watermarks[key] = min(member.high_watermark, log.synced_end)
            log_starts[key] = log.start
        directory.remember(recovery_points=recovery_points, high_watermarks=high_watermarks, log_starts=log_starts)

    def sync(self) -> None:
        """Write them all."""
        self._directory.write_checkpoints()


class Checkpoints:
    """Writes the offsets of all logs every few seconds, and soon after somebody asked."""

    def __init__(
        self,
        directory: LogDirectory,
        clock: Clock,
        syncer: Syncer,
        logs: Callable[[], Iterable[Checkpointed]],
        failed: Callable[[Exception], None],
    ) -> None:
        self._directory = directory
        self._clock = clock
        self._syncer = syncer
        self._logs = logs
        self._failed = failed
        self._timer: Timer | None = None
        self._observers: list[asyncio.Future[bool]] = []
        self._is_writing = False
        self._is_stopped = False

    def start(self) -> None:
        """Begin to write regularly."""
        self._timer = self._clock.call_later(INTERVAL_SECONDS, self._begin)

    def soon(self) -> None:
        """Something changed that should not wait for the next turn."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = self._clock.call_later(SOON_SECONDS, self._begin)

    async def write(self) -> bool:
        """Write the offsets as they are now; durable when this returns True."""
        while self._is_writing:
            await self._next_done()
        if self._is_stopped:
            return False
        done = self._next_done()
        self._begin()
        return await done

    def stop(self) -> None:
        """Write no more; `write_now` still works."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_idle(self) -> bool:
        """Whether no write is under way."""
        return not self._is_writing

    def write_now(self) -> None:
        """Write in this thread: at the end, when nobody waits for the loop."""
        _Write(self._directory, self._logs()).sync()

    def _next_done(self) -> "asyncio.Future[bool]":
        done = asyncio.get_running_loop().create_future()
        self._observers.append(done)
        return done

    def _begin(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_writing:
            return
        self._is_writing = True
        try:
            write = _Write(self._directory, self._logs())
        except (OSError, StorageError) as error:
            self._done(error)
        else:
            self._syncer.sync([write], self._done)

    def _done(self, error: Exception | None) -> None:
        self._is_writing = False
        observers, self._observers = self._observers, []
        for observer in observers:
            if not observer.done():
                observer.set_result(error is None)
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:
            log.warning("the checkpoints have to wait: %s", error)
        elif error is not None:
            self._failed(error)
            return
        if not (self._is_stopped or self._timer or self._is_writing):
            self._timer = self._clock.call_later(INTERVAL_SECONDS, self._begin)
