"""A stored log as the pure machines see it: the questions of `replication.log_view`, answered by storage."""

from hightide.storage.log import Log
from hightide.types import NO_EPOCH


class StoredLog:
    """`replication.log_view.LogView` on a `storage.log.Log`."""

    __slots__ = ("_log",)

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def start(self) -> int:
        """The first offset that may be read."""
        return self._log.start

    @property
    def end(self) -> int:
        """After the last written batch."""
        return self._log.end

    @property
    def synced_end(self) -> int:
        """Below it everything survives a power loss."""
        return self._log.synced_end

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, which is not the newest epoch while that has no records."""
        log = self._log
        return log.epochs.epoch_at(log.end - 1) if log.end > log.start else NO_EPOCH

    @property
    def tombstone_horizon(self) -> int:
        """Tombstones below it may be missing."""
        return self._log.tombstone_horizon

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Where an epoch ended."""
        return self._log.end_of_epoch(epoch)


class QuorumLogView(StoredLog):
    """`replication.snapshots.QuorumLog` on the stored metadata log."""

    __slots__ = ()

    def is_boundary(self, offset: int) -> bool:
        """Whether a batch begins here, or the log ends."""
        if offset == self._log.end:
            return True
        read = self._log.read(offset, 1, upper_bound=self._log.end, min_one_batch=True)
        if read is None:
            return False
        begins = int.from_bytes(read.slice.file.read_at(read.slice.position, 8), "big") == offset
        read.slice.release()
        return begins
