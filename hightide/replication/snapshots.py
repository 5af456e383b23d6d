"""Where a follower stands in the leader's log: on it, off it since some epoch, or before its start.

A log that is cut at its start stands on a snapshot. It ends where a batch ends (I17): a follower that loads it goes on
with whole batches.
"""

from typing import NamedTuple, Protocol

from hightide.replication.log_view import LogView


class SnapshotId(NamedTuple):
    """The state after every record below `end`, the last of which was written in `epoch`."""

    end: int
    epoch: int


class EpochEnd(NamedTuple):
    """Divergence: the largest epoch of the leader that is not newer than the follower's, and where it ends."""

    epoch: int
    end: int


class QuorumLog(LogView, Protocol):
    """A log that may stand on a snapshot."""

    def is_boundary(self, offset: int) -> bool:
        """Whether a batch begins here, or the log ends."""


def check_position(
    log: LogView, snapshot: SnapshotId | None, offset: int, last_epoch: int
) -> EpochEnd | SnapshotId | None:
    """None when a follower with these ends is on the leader's log; else where it left it, or what it must load."""
    start = log.start
    if offset == start and (start == 0 or (snapshot is not None and snapshot == (offset, last_epoch))):
        return None
    if offset > start:
        newest = log.last_epoch
        epoch, end = (newest, log.end) if last_epoch >= newest else log.end_of_epoch(last_epoch)
        if epoch == last_epoch and offset <= end:
            return None
        if end > start or start == 0:
            return EpochEnd(epoch, max(end, 0))
    if snapshot is None:
        raise ValueError(f"a log that starts at {start} stands on no snapshot")
    return snapshot


def truncation_point(log: LogView, diverging: EpochEnd) -> int:
    """R1: the leader's end of that epoch, or the own end of the largest own epoch not newer, if that is lower."""
    if diverging.epoch >= log.last_epoch:
        return min(diverging.end, log.end)
    own_end = log.end_of_epoch(diverging.epoch)[1]
    return min(diverging.end, own_end) if own_end >= 0 else log.start
