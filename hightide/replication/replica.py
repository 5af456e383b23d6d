"""One replica of one log: the machine that decides who may append, who is in sync and what is committed.

Every transition lives in this file; what a decision depends on is computed in `leadership`, `insync`, `fetching` and
`followers`.

| state    | event                                  | next     | effects                                               |
|----------|----------------------------------------|----------|-------------------------------------------------------|
| any      | LeadershipGranted (epoch > last)       | leader   | StartEpoch, HighWatermarkMoved if it did              |
| any      | FollowershipGranted (epoch > last)     | follower | FailWaiting if it led, ListAgain                      |
| any      | a role with an older epoch             | the same | none (C23)                                            |
| idle     | ElectionWon (epoch > last)             | leader   | StartEpoch, AppendLeaderChange                        |
| leader   | LeadershipGranted (same, newer set)    | leader   | HighWatermarkMoved if it did, FailWaiting if too few  |
| leader   | LogAdvanced, BrokersChanged            | leader   | HighWatermarkMoved if it did                          |
| leader   | Minimum/DurabilityChanged              | leader   | HighWatermarkMoved if it did, FailWaiting if too few  |
| leader   | `on_follower_fetch`                    | leader   | HighWatermarkMoved if it did, ProposeInSync to join   |
| leader   | TimePassed                             | leader   | ProposeInSync without laggards, R23's or the same one |
| leader   | InSyncAnswered                         | leader   | none: only an image ends a proposal (R6)              |
| follower | FetchAnswered                          | follower | as the table of `followers` says                      |
| follower | LogAdvanced                            | follower | HighWatermarkMoved if it did                          |
| any      | LogTruncated                           | the same | none                                                  |

Pure: it knows the log through the ends it is told and through the questions of `LogView`, and time by the events.
"""

from enum import Enum
from typing import Final

from hightide.errors import ErrorCode
from hightide.limits import PROPOSAL_RETRY_SECONDS
from hightide.replication.commit import effective_minimum, majority_high_watermark
from hightide.replication.effects import (
    AdvanceStart,
    AppendFetched,
    AppendLeaderChange,
    Effect,
    FailWaiting,
    HighWatermarkMoved,
    ListAgain,
    ProposeInSync,
    StartEpoch,
    TruncateTo,
)
from hightide.replication.events import (
    BrokersChanged,
    DurabilityChanged,
    ElectionWon,
    Event,
    FetchAnswered,
    FollowershipGranted,
    InSyncAnswered,
    LeadershipGranted,
    LogAdvanced,
    LogTruncated,
    MinimumChanged,
    TimePassed,
)
from hightide.replication.fetching import SERVED, FetchVerdict, NextFetch, epoch_error, judge_offsets
from hightide.replication.followers import NEVER, Following, cut, restart, take_horizon
from hightide.replication.insync import all_synced, may_join, with_member, without_laggards
from hightide.replication.leadership import BLOCKED, FollowerState, Leadership
from hightide.replication.leases import UNLIMITED, Lease
from hightide.replication.log_view import CompactedLogView
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_BROKER, NO_EPOCH, NO_OFFSET

NOT_LEADER: Final = FetchVerdict(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class CommitRule(Enum):
    """DESIGN section 1. The rule fixes the way to leadership too: appointed for IN_SYNC, elected for MAJORITY."""

    IN_SYNC = "insync"
    MAJORITY = "majority"


class Replica:
    """The machine of one replica. `log` is needed as soon as there are other replicas.

    Invariant: `high_watermark` never falls, unless the log is cut below it (after an unclean election only).
    `epoch_start` is the log end at which this leader's epoch began. `has_enough_in_sync`: acks=all may be promised, the
    committed set has at least the effective minimum (T16).
    `_bound`: how far the others let the high watermark go: for a leader the lowest position of the other members of the
    maximal in-sync set, for a follower what its leader said. With the own end it is all that every append asks.
    """

    __slots__ = (
        "_bound",
        "_counts_synced",
        "_following",
        "_leadership",
        "_log",
        "_rules",
        "commit_rule",
        "end",
        "epoch_start",
        "has_enough_in_sync",
        "high_watermark",
        "in_sync_replicas",
        "is_leader",
        "lag_time_max",
        "leader_epoch",
        "lease",
        "min_in_sync_replicas",
        "node_id",
        "partition_epoch",
        "replicas",
        "synced_end",
        "synced_only",
    )  # fmt: skip

    def __init__(
        self,
        node_id: int,
        commit_rule: CommitRule,
        *,
        end: int,
        synced_end: int,
        high_watermark: int,
        synced_only: bool,
        min_in_sync_replicas: int = 1,
        log: CompactedLogView | None = None,
        lag_time_max: float = 10.0,
        lease: Lease = UNLIMITED,
        rules: Rules = ALL_ON,
    ) -> None:
        self.node_id = node_id
        self.commit_rule = commit_rule
        self.end = end
        self.synced_end = synced_end
        self.high_watermark = min(high_watermark, end)
        self.synced_only = synced_only or commit_rule is CommitRule.MAJORITY
        self.min_in_sync_replicas = min_in_sync_replicas
        self.lag_time_max = lag_time_max
        self.lease = lease
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.epoch_start = end
        self.replicas: tuple[int, ...] = ()
        self.in_sync_replicas: tuple[int, ...] = ()
        self._log = log
        self._rules = rules
        self._leadership: Leadership | None = None
        self._following: Following | None = None
        self._bound = BLOCKED
        self._recompute()

    def handle(self, event: Event) -> list[Effect]:
        """One event, the effects it has."""
        match event:
            case LogAdvanced(end, synced_end):
                return self._moved(self.log_advanced(end, synced_end))
            case FetchAnswered():
                return self._answered(event)
            case TimePassed(now):
                return self._time_passed(now)
            case LeadershipGranted():
                return self._granted(event)
            case FollowershipGranted():
                return self._followed(event)
            case LogTruncated(end, synced_end):
                return self._truncated(end, synced_end)
            case BrokersChanged(brokers):
                if self._leadership is not None:
                    self._leadership.take_brokers(brokers)
                return self._moved(self._advance())
            case InSyncAnswered():
                return self._in_sync_answered(event)
            case ElectionWon(epoch, voters):
                return self._won(epoch, voters)
            case MinimumChanged(minimum):
                self.min_in_sync_replicas = minimum
                return self._sets_changed(had_enough=self.has_enough_in_sync)
            case DurabilityChanged(synced_only):
                self.synced_only = synced_only
                return self._moved(self._advance())
            case _:
                raise ValueError(f"{event} does not happen to this kind of replica")

    # ------------------------------------------------------------------ the hot path

    def log_advanced(self, end: int, synced_end: int) -> bool:
        """`LogAdvanced` without objects, for the hot path: whether the high watermark moved."""
        self.end = end
        self.synced_end = synced_end
        reached = synced_end if self._counts_synced else end
        if reached > self._bound:
            reached = self._bound
        if reached > self.high_watermark:
            self.high_watermark = reached
            return True
        return self.commit_rule is CommitRule.MAJORITY and self._advance()

    def may_append(self, now: float, *, acks_all: bool = True) -> bool:
        """R16, C13: whether the lease still lets this leader write; asked at every append.

        A lease that is not strict lets acks=all go on while every member of the maximal set is heard in this epoch:
        nothing is acknowledged that they do not all have.
        """
        if now < self.lease.until or not self._rules.r16_lease:
            return True
        return acks_all and not self.lease.strict and self._bound != BLOCKED

    def on_follower_fetch(
        self,
        replica_id: int,
        broker_epoch: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start: int,
        now: float,
        synced_session: bool,
        tombstone_horizon: int = NO_OFFSET,
    ) -> FetchVerdict:
        """Judge a follower's Fetch when it arrives and credit it (C17)."""
        verdict = self.judge_fetch(
            replica_id, broker_epoch, leader_epoch, fetch_offset, last_fetched_epoch, tombstone_horizon
        )
        leadership = self._leadership
        if verdict is not SERVED or leadership is None:
            return verdict
        follower = leadership.followers[replica_id]
        follower.fetched(fetch_offset, broker_epoch, log_start, self.end, now)
        follower.is_synced = synced_session
        return self._credited(leadership, follower, now)

    def judge_fetch(
        self,
        replica_id: int,
        broker_epoch: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        tombstone_horizon: int = NO_OFFSET,
    ) -> FetchVerdict:
        """Whether this replica may answer, asked again when a Fetch that was parked is answered. Credits nothing."""
        error = epoch_error(leader_epoch, self.leader_epoch)
        if error is not ErrorCode.NONE and self._rules.r2_fence_leader_epoch:
            return FetchVerdict(error)
        follower = None if self._leadership is None else self._leadership.followers.get(replica_id)
        if follower is None or self._log is None:
            return NOT_LEADER
        if broker_epoch < max(follower.current_epoch, follower.broker_epoch) and self._rules.r4_positions_of_this_life:
            return NOT_LEADER  # a former life of the broker, whose position means nothing now (KIP-903)
        return judge_offsets(self._log, fetch_offset, last_fetched_epoch, tombstone_horizon, self._rules)

    def next_fetch(self, now: float) -> NextFetch | None:
        """What this follower asks its leader next; None while it has nothing to ask.

        In a session of `fsync` topics its fetch offset promises that its log is synced that far, and so its whole log
        must be (R19, R25).
        """
        following = self._following
        if following is None or self._log is None or now < following.resumes_at:
            return None
        if self.synced_only and self.synced_end < self.end and self._rules.r19_list_synced_logs_only:
            return None
        last_epoch = self._log.last_epoch if self._rules.r1_truncate_by_epoch else NO_EPOCH
        log = self._log
        return NextFetch(following.leader, self.leader_epoch, self.end, last_epoch, log.start, log.tombstone_horizon)

    # ------------------------------------------------------------------ what the node asks

    @property
    def leader(self) -> int:
        """Who leads in the newest epoch known here; -1 for nobody."""
        if self.is_leader:
            return self.node_id
        return NO_BROKER if self._following is None else self._following.leader

    @property
    def leadership(self) -> Leadership | None:
        """What this leader knows of its followers; None for a follower."""
        return self._leadership

    @property
    def answers_offsets(self) -> bool:
        """MISSION 5.6: a new leader names no end until its high watermark reached its epoch's start."""
        return self.high_watermark >= self.epoch_start

    @property
    def next_deadline(self) -> float | None:
        """When TimePassed has something to do at the earliest; None when nothing waits for time."""
        if self._following is not None:
            return None if self._following.resumes_at in (0.0, NEVER) else self._following.resumes_at
        leadership = self._leadership
        if leadership is None:
            return None
        if leadership.proposal is not None:
            return leadership.sent_at + PROPOSAL_RETRY_SECONDS
        if self.synced_only and not leadership.whole_logs_synced:  # a sole replica has R23's report to make too
            return leadership.checked_at + PROPOSAL_RETRY_SECONDS
        return leadership.checked_at + self.lag_time_max / 2 if leadership.followers else None

    # ------------------------------------------------------------------ roles

    def _granted(self, event: LeadershipGranted) -> list[Effect]:
        if self.commit_rule is not CommitRule.IN_SYNC:
            raise ValueError("an elected log takes no appointed leader (DESIGN section 1)")
        if event.leader_epoch < self.leader_epoch or event.partition_epoch < self.partition_epoch:
            return []
        effects: list[Effect] = []
        had_enough = False
        if event.leader_epoch > self.leader_epoch:
            effects += self._start_epoch(event.leader_epoch)
        else:
            had_enough = self.has_enough_in_sync
        assert self._leadership is not None
        self.partition_epoch = event.partition_epoch
        self.replicas = event.replicas
        self.in_sync_replicas = event.in_sync_replicas
        if event.min_in_sync_replicas is not None and self._rules.r23_minimum_with_its_sets:
            self.min_in_sync_replicas = event.min_in_sync_replicas
        self._leadership.take(event)
        return effects + self._sets_changed(had_enough=had_enough)

    def _followed(self, event: FollowershipGranted) -> list[Effect]:
        if self.commit_rule is not CommitRule.IN_SYNC:
            raise ValueError("an elected log takes no appointed leader (DESIGN section 1)")
        if event.leader_epoch < self.leader_epoch or event.partition_epoch < self.partition_epoch:
            return []
        self.partition_epoch = event.partition_epoch
        self.replicas = event.replicas
        self.in_sync_replicas = event.in_sync_replicas
        if event.leader_epoch == self.leader_epoch:
            return []
        effects: list[Effect] = [FailWaiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)] if self.is_leader else []
        self.is_leader = False
        self.leader_epoch = event.leader_epoch
        self._leadership = None
        self._following = Following(event.leader)
        self._bound = BLOCKED  # what the former leader said is not on the new one's log, as far as this replica knows
        self._recompute()
        if not self._rules.r1_truncate_by_epoch and self.high_watermark < self.end:
            effects.append(TruncateTo(self.high_watermark))
        return [*effects, ListAgain()]

    def _won(self, epoch: int, voters: tuple[int, ...]) -> list[Effect]:
        if self.commit_rule is not CommitRule.MAJORITY:
            raise ValueError("an in-sync log elects no leader by itself (DESIGN section 1)")
        if epoch <= self.leader_epoch:
            return []
        effects = self._start_epoch(epoch)
        self.replicas = self.in_sync_replicas = voters
        return [*effects, AppendLeaderChange(epoch, voters)]

    def _start_epoch(self, epoch: int) -> list[Effect]:
        self.is_leader = True
        self.leader_epoch = epoch
        self.epoch_start = self.end
        self._following = None
        if self._leadership is None or self._rules.r4_positions_of_this_epoch:
            self._leadership = Leadership(self.node_id, self._rules)
        return [StartEpoch(epoch, self.end)] if self._rules.r3_epoch_before_append else []

    # ------------------------------------------------------------------ leading

    def _credited(self, leadership: Leadership, follower: FollowerState, now: float) -> FetchVerdict:
        replica = follower.replica_id
        if replica in leadership.maximal:
            return FetchVerdict(effects=self._moved(True)) if self._advance() else SERVED
        if leadership.proposal is not None or not leadership.counts(follower, synced_only=self._counts_synced):
            return SERVED
        if not may_join(follower, epoch_start=self.epoch_start, high_watermark=self.high_watermark, rules=self._rules):
            return SERVED
        return FetchVerdict(effects=self._propose(with_member(leadership, *self._epochs, replica), now))

    @property
    def _epochs(self) -> tuple[int, int]:
        return self.leader_epoch, self.partition_epoch

    def _propose(self, proposal: ProposeInSync, now: float) -> list[Effect]:
        assert self._leadership is not None
        self._leadership.propose(proposal, now)
        return [proposal, *self._moved(self._advance())]

    def _time_passed(self, now: float) -> list[Effect]:
        leadership = self._leadership
        if leadership is None or self.commit_rule is not CommitRule.IN_SYNC:
            return []
        if leadership.proposal is None:
            leadership.checked_at = now
            proposal = without_laggards(leadership, *self._epochs, self.end, now, self.lag_time_max)
            if proposal is None and self.synced_only and self.synced_end >= self.high_watermark:
                proposal = all_synced(leadership, *self._epochs)
            return [] if proposal is None else self._propose(proposal, now)
        if now - leadership.sent_at < PROPOSAL_RETRY_SECONDS:
            return []
        leadership.sent_at = now
        return [leadership.proposal]

    def _in_sync_answered(self, event: InSyncAnswered) -> list[Effect]:
        """A reply ends nothing and is adopted by nobody (R6); the two rules that say so can be turned off here."""
        leadership = self._leadership
        if leadership is None:
            return []
        if event.error is not ErrorCode.NONE:
            if not self._rules.r6_proposals_end_by_image:
                leadership.propose(None, event.now)
                return self._moved(self._advance())
        elif not self._rules.r6_adopt_from_image:
            leadership.propose(None, event.now)
            leadership.commit(event.in_sync_replicas)
            self.in_sync_replicas = event.in_sync_replicas
            return self._sets_changed(had_enough=self.has_enough_in_sync)
        return []

    def _sets_changed(self, *, had_enough: bool) -> list[Effect]:
        """T16: with fewer than the minimum nothing waiting can be promised any more."""
        effects = self._moved(self._advance())
        if self.is_leader and had_enough and not self.has_enough_in_sync:
            effects.append(FailWaiting(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
        return effects

    def _recompute(self) -> None:
        """What follows from role, sets and settings, kept because every append asks for it."""
        minimum = effective_minimum(self.min_in_sync_replicas, len(self.replicas))
        self.has_enough_in_sync = len(self.in_sync_replicas) >= minimum
        self._counts_synced = self.is_leader and self.synced_only and self._rules.r4_synced_ends_only
        if self._leadership is None or self.commit_rule is CommitRule.MAJORITY:
            return
        if self.has_enough_in_sync or not self._rules.r4_minimum_of_committed_set:
            self._bound = self._leadership.bound(synced_only=self._counts_synced)
        else:
            self._bound = BLOCKED

    def _advance(self) -> bool:
        """Apply the commit rule to what is known now; whether the high watermark moved."""
        self._recompute()
        own = self.synced_end if self._counts_synced else self.end
        before = self.high_watermark
        if self.commit_rule is CommitRule.MAJORITY:
            ends = [own if voter == self.node_id else 0 for voter in self.replicas]
            self.high_watermark = majority_high_watermark(before, ends, self.epoch_start)
        else:
            self.high_watermark = max(before, min(own, self._bound))
        return self.high_watermark > before

    def _moved(self, moved: bool) -> list[Effect]:
        return [HighWatermarkMoved(self.high_watermark)] if moved else []

    # ------------------------------------------------------------------ following

    def _answered(self, event: FetchAnswered) -> list[Effect]:
        following, log = self._following, self._log
        if following is None or log is None:
            return []
        if event.leader_epoch != self.leader_epoch and self._rules.r2_drop_answers_of_other_epochs:
            return [ListAgain()]
        if event.fetch_offset != self.end:
            return [ListAgain()]
        if event.error is ErrorCode.OFFSET_OUT_OF_RANGE and (self.end < event.log_start or log.last_epoch == NO_EPOCH):
            return restart(event)
        if event.error is not ErrorCode.NONE:
            return following.refused(event)
        following.answered()
        if event.diverging is not None:
            used: list[Effect] = []
            if not self._rules.r1_discard_diverging_answer:
                self._bound = event.high_watermark
                used = self._moved(self.log_advanced(self.end, self.synced_end))
            is_horizon = event.diverging[0] == NO_EPOCH
            return used + (take_horizon(log, event) if is_horizon else cut(log, event, self._rules))
        return self._served(event, log)

    def _served(self, event: FetchAnswered, log: CompactedLogView) -> list[Effect]:
        """Append first, then HW = min(leader's HW, own end) with the LogAdvanced that follows (MISSION 5.3)."""
        self._bound = event.high_watermark
        effects: list[Effect] = []
        if event.has_records:
            if not self._rules.r13_high_watermark_after_append and self._bound > self.high_watermark:
                self.high_watermark = self._bound
                effects += self._moved(True)
            effects.append(AppendFetched(event.leader_epoch))
        effects += self._moved(self.log_advanced(self.end, self.synced_end))
        start = min(event.log_start, self.high_watermark)
        if start > log.start:
            effects.append(AdvanceStart(start))
        return effects

    def _truncated(self, end: int, synced_end: int) -> list[Effect]:
        self.end = end
        self.synced_end = synced_end
        self.high_watermark = min(self.high_watermark, end)
        if self._following is not None:
            self._bound = BLOCKED  # what is left need not be the leader's yet
        return []
