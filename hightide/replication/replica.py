"""One replica of one log: the machine that decides who may append and what is committed.

Every transition lives in this file.

| state    | event                                  | next     | effects                                   |
|----------|----------------------------------------|----------|-------------------------------------------|
| idle     | LeadershipGranted (epoch > last)       | leader   | StartEpoch, HighWatermarkMoved if it did  |
| idle     | ElectionWon (epoch > last)             | leader   | StartEpoch, AppendLeaderChange            |
| leader   | LeadershipGranted (epoch > last)       | leader   | StartEpoch, HighWatermarkMoved if it did  |
| leader   | LeadershipGranted (same, newer set)    | leader   | HighWatermarkMoved if it did              |
| leader   | LogAdvanced                            | leader   | HighWatermarkMoved if it did              |
| leader   | Minimum/DurabilityChanged              | leader   | HighWatermarkMoved if it did              |
| any      | an older epoch                         | the same | none (C23)                                |

Pure: it knows the log only through the ends it is told. Positions of other members arrive with the replication
protocol; a member without a position blocks the high watermark, so a set of several never commits by itself (R4).
"""

from enum import Enum

from hightide.replication.commit import effective_minimum, in_sync_high_watermark, majority_high_watermark
from hightide.replication.effects import AppendLeaderChange, Effect, HighWatermarkMoved, StartEpoch
from hightide.replication.events import (
    DurabilityChanged,
    ElectionWon,
    Event,
    LeadershipGranted,
    LogAdvanced,
    MinimumChanged,
)
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_EPOCH


class CommitRule(Enum):
    """DESIGN section 1. The rule fixes the way to leadership too: appointed for IN_SYNC, elected for MAJORITY."""

    IN_SYNC = "insync"
    MAJORITY = "majority"


class Replica:
    """The machine of one replica.

    Invariant: `high_watermark` never falls. `epoch_start` is the log end at which this leader's epoch began.
    `has_enough_in_sync`: acks=all may be promised, the committed set has at least the effective minimum (T16).
    """

    __slots__ = (
        "_counts_synced",
        "_is_sole",
        "_rules",
        "commit_rule",
        "end",
        "epoch_start",
        "has_enough_in_sync",
        "high_watermark",
        "in_sync_replicas",
        "is_leader",
        "leader_epoch",
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
        rules: Rules = ALL_ON,
    ) -> None:
        self.node_id = node_id
        self.commit_rule = commit_rule
        self.end = end
        self.synced_end = synced_end
        self.high_watermark = min(high_watermark, end)
        self.synced_only = synced_only or commit_rule is CommitRule.MAJORITY
        self.min_in_sync_replicas = min_in_sync_replicas
        self.is_leader = False
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.epoch_start = end
        self.replicas: tuple[int, ...] = ()
        self.in_sync_replicas: tuple[int, ...] = ()
        self._rules = rules
        self._recompute()

    def handle(self, event: Event) -> list[Effect]:
        """One event, the effects it has."""
        match event:
            case LogAdvanced(end, synced_end):
                return self._moved(self.log_advanced(end, synced_end))
            case LeadershipGranted():
                return self._granted(event)
            case ElectionWon(epoch, voters):
                return self._won(epoch, voters)
            case MinimumChanged(minimum):
                self.min_in_sync_replicas = minimum
                return self._moved(self._advance())
            case DurabilityChanged(synced_only):
                self.synced_only = synced_only
                return self._moved(self._advance())

    def log_advanced(self, end: int, synced_end: int) -> bool:
        """`LogAdvanced` without objects, for the hot path: whether the high watermark moved."""
        self.end = end
        self.synced_end = synced_end
        if self._is_sole:
            own = synced_end if self._counts_synced else end
            if own > self.high_watermark:
                self.high_watermark = own
                return True
            return False
        return self.is_leader and self._advance()

    def _recompute(self) -> None:
        """What follows from role, sets and settings, kept because every append asks for it."""
        minimum = effective_minimum(self.min_in_sync_replicas, len(self.replicas))
        self.has_enough_in_sync = len(self.in_sync_replicas) >= minimum
        self._counts_synced = self.synced_only and self._rules.r4_synced_ends_only
        self._is_sole = (
            self.is_leader
            and self.commit_rule is CommitRule.IN_SYNC
            and self.in_sync_replicas == (self.node_id,)
            and self.has_enough_in_sync
        )

    @property
    def answers_offsets(self) -> bool:
        """MISSION 5.6: a new leader names no end until its high watermark reached its epoch's start."""
        return self.high_watermark >= self.epoch_start

    def _granted(self, event: LeadershipGranted) -> list[Effect]:
        if self.commit_rule is not CommitRule.IN_SYNC:
            raise ValueError("an elected log takes no appointed leader (DESIGN section 1)")
        if event.leader_epoch < self.leader_epoch or event.partition_epoch < self.partition_epoch:
            return []
        effects: list[Effect] = []
        if event.leader_epoch > self.leader_epoch:
            effects += self._start_epoch(event.leader_epoch)
        self.partition_epoch = event.partition_epoch
        self.replicas = event.replicas
        self.in_sync_replicas = event.in_sync_replicas
        return effects + self._moved(self._advance())

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
        return [StartEpoch(epoch, self.end)] if self._rules.r3_epoch_before_append else []

    def _advance(self) -> bool:
        """Apply the commit rule to what is known now; whether the high watermark moved."""
        self._recompute()
        own = self.synced_end if self._counts_synced else self.end
        before = self.high_watermark
        if self.commit_rule is CommitRule.MAJORITY:
            ends = [own if voter == self.node_id else 0 for voter in self.replicas]
            self.high_watermark = majority_high_watermark(before, ends, self.epoch_start)
        elif self.has_enough_in_sync:
            positions = (own if member == self.node_id else None for member in self.in_sync_replicas)
            self.high_watermark = in_sync_high_watermark(before, positions)
        return self.high_watermark > before

    def _moved(self, moved: bool) -> list[Effect]:
        return [HighWatermarkMoved(self.high_watermark)] if moved else []
