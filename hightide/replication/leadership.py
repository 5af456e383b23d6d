"""What a leader knows of the other replicas in one leader epoch, and how far their logs let it commit.

A follower's position is the fetch offset of its newest request, nothing else (C17): asking for an offset says that
everything below it is written, and in a session of `fsync` topics that it is synced (R25). A new leader epoch begins
with an empty memory: a position counts only if it was told in this epoch, by the broker's current life (R4).
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hightide.replication.effects import ProposeInSync
from hightide.replication.events import BrokerState, LeadershipGranted
from hightide.rules import Rules
from hightide.types import ABOVE_ALL_OFFSETS, NO_EPOCH, NO_OFFSET

UNBOUNDED: Final = ABOVE_ALL_OFFSETS  # nobody else has to have a record: only the leader's log bounds the mark
BLOCKED: Final = -1  # below every high watermark: nothing more is committed
LONG_AGO: Final = float("-inf")


class FollowerState:
    """One other replica, as the leader sees it.

    Invariant: `position` is NO_OFFSET until the replica fetched in this leader epoch, and goes with `broker_epoch`
    and `is_synced`, which were told with it. `current_epoch` and `is_live` are what the committed metadata says.
    """

    __slots__ = (
        "broker_epoch", "caught_up_at", "current_epoch", "fetched_at", "is_live", "is_synced", "leader_end_at_fetch",
        "log_start", "position", "replica_id",
    )  # fmt: skip

    def __init__(self, replica_id: int, *, caught_up_at: float) -> None:
        self.replica_id = replica_id
        self.position = NO_OFFSET
        self.broker_epoch = NO_EPOCH
        self.is_synced = False
        self.log_start = NO_OFFSET
        self.current_epoch = NO_EPOCH
        self.is_live = False
        self.caught_up_at = caught_up_at
        self.fetched_at = LONG_AGO
        self.leader_end_at_fetch = UNBOUNDED

    def fetched(self, offset: int, broker_epoch: int, log_start: int, leader_end: int, now: float) -> None:
        """Note where the replica is. Whoever has all that there was at its last fetch was caught up then (C20)."""
        if offset >= leader_end:
            self.caught_up_at = now
        elif offset >= self.leader_end_at_fetch:
            self.caught_up_at = max(self.caught_up_at, self.fetched_at)
        self.position = offset
        self.broker_epoch = broker_epoch
        self.log_start = log_start
        self.leader_end_at_fetch = leader_end
        self.fetched_at = now

    def lags(self, leader_end: int, now: float, lag_time_max: float) -> bool:
        """Whether it was not caught up to the leader's end for too long (MISSION 5.10); idle ones do not lag."""
        return self.position != leader_end and now - self.caught_up_at > lag_time_max


class Leadership:
    """The leader's view of one partition in one leader epoch.

    Invariant: `maximal` = committed and proposed in-sync set, so it holds every set the controller may have committed
    (I3), whatever became of a proposal.
    """

    __slots__ = (
        "_node_id", "_rules", "checked_at", "committed", "followers", "maximal", "own_broker_epoch", "proposal",
        "sent_at", "whole_logs_synced",
    )  # fmt: skip

    def __init__(self, node_id: int, rules: Rules) -> None:
        self._node_id = node_id
        self._rules = rules
        self.followers: dict[int, FollowerState] = {}
        self.committed: tuple[int, ...] = ()
        self.proposal: ProposeInSync | None = None
        self.sent_at = LONG_AGO
        self.checked_at = LONG_AGO
        self.maximal: frozenset[int] = frozenset()
        self.own_broker_epoch = NO_EPOCH
        self.whole_logs_synced = True

    def take(self, agreed: LeadershipGranted) -> None:
        """The sets that the committed metadata names. A newer partition epoch ends whatever was proposed (R6)."""
        for replica in agreed.replicas:
            if replica != self._node_id and replica not in self.followers:
                caught_up_at = agreed.now if replica in agreed.in_sync_replicas else LONG_AGO
                self.followers[replica] = FollowerState(replica, caught_up_at=caught_up_at)
        for gone in self.followers.keys() - set(agreed.replicas):
            del self.followers[gone]
        self.take_brokers(agreed.brokers)
        self.checked_at = max(self.checked_at, agreed.now)
        self.whole_logs_synced = agreed.whole_logs_synced
        if self.proposal is not None and agreed.partition_epoch > self.proposal.partition_epoch:
            self.proposal = None
        self.commit(agreed.in_sync_replicas)

    def take_brokers(self, brokers: Mapping[int, BrokerState]) -> None:
        """Which life of every replica's broker is the current one, and who may join."""
        for follower in self.followers.values():
            broker = brokers.get(follower.replica_id)
            follower.current_epoch = NO_EPOCH if broker is None else broker.epoch
            follower.is_live = broker is not None and broker.live
        own = brokers.get(self._node_id)
        self.own_broker_epoch = NO_EPOCH if own is None else own.epoch

    def commit(self, in_sync_replicas: tuple[int, ...]) -> None:
        """This is the controller's set now."""
        self.committed = in_sync_replicas
        self._widen()

    def propose(self, proposal: ProposeInSync | None, now: float) -> None:
        """From here on the proposed members count too, before anybody can have committed them (R4)."""
        self.proposal = proposal
        self.sent_at = now
        self._widen()

    def _widen(self) -> None:
        proposed: Iterable[int] = ()
        if self.proposal is not None and self._rules.r4_proposed_members_count:
            proposed = (member for member, _ in self.proposal.in_sync)
        self.maximal = frozenset((*self.committed, *proposed))

    def counts(self, follower: FollowerState, *, synced_only: bool) -> bool:
        """Whether its position may commit records (R4, R25)."""
        if follower.position == NO_OFFSET:
            return False
        if follower.broker_epoch != follower.current_epoch and self._rules.r4_positions_of_this_life:
            return False
        return follower.is_synced or not synced_only or not self._rules.r25_credit_synced_sessions_only

    def bound(self, *, synced_only: bool) -> int:
        """How far the other members of the maximal in-sync set let the high watermark go (MISSION 5.5)."""
        lowest = UNBOUNDED
        for replica in self.maximal:
            if replica == self._node_id:
                continue
            follower = self.followers.get(replica)
            if follower is None or not self.counts(follower, synced_only=synced_only):
                if self._rules.r4_unknown_position_blocks:
                    return BLOCKED
            elif follower.position < lowest:
                lowest = follower.position
        return lowest

    def all_synced(self, members: Iterable[int]) -> bool:
        """Whether each of them has said in this epoch, by a Fetch in a synced session, that its log is synced (R23)."""
        others = (self.followers.get(member) for member in members if member != self._node_id)
        return all(follower is not None and self.counts(follower, synced_only=True) for follower in others)
