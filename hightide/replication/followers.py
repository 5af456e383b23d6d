"""What a follower does with its leader's answer: drop it, cut its log, or append and then move its high watermark.

| answer                                     | effects                                                          |
|--------------------------------------------|------------------------------------------------------------------|
| of another leader epoch or log end         | ListAgain (R2, KAFKA-7786)                                       |
| diverging (e, end)                         | TruncateTo or RestartLogAt, ListAgain; no high watermark (R1)    |
| diverging (-1, horizon)                    | RestartLogAt if the log ends below it, RememberHorizon (R20)     |
| OFFSET_OUT_OF_RANGE                        | RestartLogAt the leader's log start, ListAgain (MISSION 5.18)    |
| any other error                            | ListAgain, after a back-off; FENCED_LEADER_EPOCH waits for an image |
| records                                    | AppendFetched; with the LogAdvanced after it the high watermark  |
| nothing new                                | HighWatermarkMoved if it did, AdvanceStart if the leader's did   |

A follower never cuts to a high watermark (MISSION 5.1): only leader epochs tell where two logs parted.
"""

from typing import Final

from hightide.errors import ErrorCode
from hightide.limits import FETCH_BACKOFF_SECONDS_FIRST, FETCH_BACKOFF_SECONDS_MAX
from hightide.replication.effects import Effect, ListAgain, RememberHorizon, RestartLogAt, TruncateTo
from hightide.replication.events import FetchAnswered
from hightide.replication.log_view import CompactedLogView
from hightide.rules import Rules
from hightide.types import NO_BROKER

NEVER: Final = float("inf")


class Following:
    """A follower's part in one leader epoch. `resumes_at`: when it may ask again; NEVER waits for a newer epoch."""

    __slots__ = ("_failures", "leader", "resumes_at")

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.resumes_at = NEVER if leader == NO_BROKER else 0.0
        self._failures = 0

    def refused(self, event: FetchAnswered) -> list[Effect]:
        """Ask again later; a follower that was fenced has nothing to ask before it knows the new epoch."""
        if event.error is ErrorCode.FENCED_LEADER_EPOCH:
            self.resumes_at = NEVER
        else:
            wait = min(FETCH_BACKOFF_SECONDS_FIRST * 2**self._failures, FETCH_BACKOFF_SECONDS_MAX)
            self.resumes_at = event.now + wait
            self._failures += wait < FETCH_BACKOFF_SECONDS_MAX
        return [ListAgain()]

    def answered(self) -> None:
        """The leader serves: the next failure is a first one again."""
        self._failures = 0


def cut(log: CompactedLogView, answer: FetchAnswered, rules: Rules) -> list[Effect]:
    """R1: where the logs parted. (e, end) means: below `end` the leader has nothing newer than its epoch e.

    Cutting to the leader's end alone would repeat for ever where the own log has no epoch e: only what is below both
    its end at the leader and the end of the largest own epoch ≤ e can be common.
    """
    assert answer.diverging is not None
    epoch, end = answer.diverging
    if rules.r1_cut_to_own_epoch_end:
        end = min(end, log.end if epoch >= log.last_epoch else log.end_of_epoch(epoch)[1])
    if end <= log.start:
        return restart(answer)
    return [TruncateTo(end), ListAgain()]


def take_horizon(log: CompactedLogView, answer: FetchAnswered) -> list[Effect]:
    """R20: the leader removed tombstones below a horizon. Who ends below it may have what they deleted: begin anew.

    A member of the in-sync set never does: all below the horizon is committed, and so it has it.
    """
    assert answer.diverging is not None
    horizon = answer.diverging[1]
    if log.end >= horizon:
        return [RememberHorizon(max(log.tombstone_horizon, 0)), ListAgain()]
    return [RestartLogAt(max(answer.log_start, 0)), RememberHorizon(horizon), ListAgain()]


def restart(answer: FetchAnswered) -> list[Effect]:
    """Nothing of the own log is on the leader's: begin anew where that begins."""
    return [RestartLogAt(max(answer.log_start, 0)), ListAgain()]
