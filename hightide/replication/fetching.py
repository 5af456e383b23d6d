"""What a leader makes of a follower's Fetch: refuse it, send the follower back, or serve and credit it.

The order of the checks is Kafka's: the epoch first (R2), then whether the offsets are on the leader's log. Only a fetch
that passes all of them is a position.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hightide.errors import ErrorCode
from hightide.replication.effects import Effect
from hightide.replication.log_view import CompactedLogView
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_EPOCH, NO_OFFSET


class FetchVerdict(NamedTuple):
    """How to answer, and what the fetch changed here.

    `error`: the partition's error code; OFFSET_OUT_OF_RANGE goes with the leader's log start. `diverging`: (epoch, end)
    to answer instead of records (KIP-595); with epoch -1 the end is the leader's tombstone horizon (R20). Neither: read
    from the fetch offset up to the log's written end.
    """

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    effects: Sequence[Effect] = ()

    @property
    def serves(self) -> bool:
        """Whether records may be sent."""
        return self.error is ErrorCode.NONE and self.diverging is None


SERVED: Final = FetchVerdict()


class NextFetch(NamedTuple):
    """What a follower asks for: the partition's part of its Fetch request, and whom."""

    leader: int
    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start: int
    tombstone_horizon: int = NO_OFFSET


def epoch_error(asked: int, own: int) -> ErrorCode:
    """R2, KIP-320: a follower that missed an election is fenced, a leader that missed one says so."""
    if asked < own:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.UNKNOWN_LEADER_EPOCH if asked > own else ErrorCode.NONE


def judge_offsets(
    log: CompactedLogView,
    fetch_offset: int,
    last_fetched_epoch: int,
    tombstone_horizon: int = NO_OFFSET,
    rules: Rules = ALL_ON,
) -> FetchVerdict:
    """Whether the follower's log is a prefix of the leader's, as far as its last epoch tells, and compaction allows.

    R20: below the horizon the leader may have removed tombstones for which the follower still has what they deleted,
    unless it began anew since. A follower that does not know that the log was compacted is told by the same answer.
    """
    if fetch_offset < log.start:
        return FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE)
    if last_fetched_epoch >= 0:
        epoch, end = log.end_of_epoch(last_fetched_epoch)
        if epoch < 0:
            return FetchVerdict(ErrorCode.UNKNOWN_LEADER_EPOCH)  # not with R3: the leader's own epoch is the newest
        if epoch < last_fetched_epoch or end < fetch_offset:
            return FetchVerdict(diverging=(epoch, end))
    is_behind = log.tombstone_horizon > tombstone_horizon and rules.r20_refetch_below_horizon
    if is_behind and (fetch_offset < log.tombstone_horizon or tombstone_horizon == NO_OFFSET):
        return FetchVerdict(diverging=(NO_EPOCH, log.tombstone_horizon))
    return FetchVerdict(ErrorCode.OFFSET_OUT_OF_RANGE) if fetch_offset > log.end else SERVED
