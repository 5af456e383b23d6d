"""What a replica asks of its node, in the imperative. Effects are carried out in order, before the next event."""

from typing import NamedTuple


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


Effect = StartEpoch | AppendLeaderChange | HighWatermarkMoved
