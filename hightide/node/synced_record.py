"""Notes down how far each log is on stable storage, at most 10 ms late (R17).

Acknowledgements do not wait for it. What it promises lets the next start tell a torn tail from rot.
"""

from collections.abc import Callable, Iterable

from hightide.errors import StorageError
from hightide.limits import SYNCED_END_RECORD_INTERVAL_SECONDS
from hightide.node.ports import Clock, Syncer, Timer
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Log
from hightide.types import PartitionKey


class SyncedRecord:
    """Feeds `storage.synced_ends` after every group commit and syncs it on a timer."""

    def __init__(
        self, directory: LogDirectory, clock: Clock, syncer: Syncer, failed: Callable[[Exception], None]
    ) -> None:
        self._directory = directory
        self._synced_ends = directory.synced_ends
        self._clock = clock
        self._syncer = syncer
        self._failed = failed
        self._timer: Timer | None = None
        self._is_syncing = False
        self._is_stopped = False

    def record(self, logs: Iterable[Log]) -> None:
        """A group commit reached these logs."""
        for log in logs:
            key = PartitionKey(log.topic_id, log.partition)
            self._synced_ends.record(key, log.truncation_generation, log.synced_end)
        try:
            self._directory.write_synced_ends()
        except (OSError, StorageError) as error:
            self._failed(error)
            return
        self._schedule()

    def _schedule(self) -> None:
        if self._synced_ends.needs_sync and self._timer is None and not (self._is_syncing or self._is_stopped):
            self._timer = self._clock.call_later(SYNCED_END_RECORD_INTERVAL_SECONDS, self._sync)

    def _sync(self) -> None:
        self._timer = None
        self._is_syncing = True
        self._syncer.sync(self._synced_ends.unsynced(), self._done)

    def _done(self, error: Exception | None) -> None:
        self._is_syncing = False
        if error is not None:
            self._failed(error)
            return
        try:
            self._directory.guarded(self._synced_ends.synced)
        except (OSError, StorageError) as failure:
            self._failed(failure)
            return
        self._schedule()

    @property
    def is_idle(self) -> bool:
        """Whether no sync is under way."""
        return not self._is_syncing

    def stop(self) -> None:
        """Start no more syncs; closing the directory does the last one."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
