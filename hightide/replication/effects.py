"""What a replica asks of its node, in the imperative. Effects are carried out in order, before the next event."""

from typing import NamedTuple

from hightide.errors import ErrorCode


class StartEpoch(NamedTuple):
    """Put (epoch, start) into the log's epoch history before the first append or answer of this epoch (R3)."""

    epoch: int
    start: int


class AppendLeaderChange(NamedTuple):
    """Append the leader-change record whose commit is the first of the new epoch (R9)."""

    epoch: int
    voters: tuple[int, ...]


class HighWatermarkMoved(NamedTuple):
    """Requests that waited for this offset can be answered."""

    high_watermark: int


class FailWaiting(NamedTuple):
    """Answer whoever waits for a commit with this error: the records may or may not survive."""

    error: ErrorCode


class ProposeInSync(NamedTuple):
    """Ask the controller for this in-sync set (AlterPartition), again whenever the same proposal comes again.

    `in_sync` holds (broker id, broker epoch); the epochs are those of the request, by which it compares and sets.
    """

    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[tuple[int, int], ...]
    whole_logs_synced: bool = False
    """R23: every one of them said that its whole log is synced."""


class AppendFetched(NamedTuple):
    """Append the records of the answer as they are (R21), then tell LogAdvanced; no batch newer than `leader_epoch`."""

    leader_epoch: int


class TruncateTo(NamedTuple):
    """Cut the log's end back to `offset`, then tell LogTruncated; nothing else of the answer may be used (R1)."""

    offset: int


class RestartLogAt(NamedTuple):
    """Drop the whole log and begin anew at `offset`, the leader's log start; then tell LogTruncated."""

    offset: int


class RememberHorizon(NamedTuple):
    """Note durably that tombstones below `horizon` may be missing in this log, before the next record comes (R20)."""

    horizon: int


class AdvanceStart(NamedTuple):
    """Records below `offset` are gone at the leader, and here they go too."""

    offset: int


class ListAgain(NamedTuple):
    """Name the partition in the session's next Fetch and want a full answer, so that no high watermark sticks (R25)."""


Effect = (
    StartEpoch
    | AppendLeaderChange
    | HighWatermarkMoved
    | FailWaiting
    | ProposeInSync
    | AppendFetched
    | TruncateTo
    | RestartLogAt
    | RememberHorizon
    | AdvanceStart
    | ListAgain
)
