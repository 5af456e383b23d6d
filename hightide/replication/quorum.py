"""One replica of an elected log: a voter or an observer of a Raft quorum that replicates by fetching (KIP-595, R9).

Every transition lives in this file; that is why it is long. Arithmetic is in elections, snapshots, commit; bookkeeping
in quorum_progress (a leader's), quorum_following (a follower's) and quorum_outbox.

| role          | event                                        | next        | what it asks for                   |
|---------------|----------------------------------------------|-------------|------------------------------------|
| (none)        | Started                                      | unattached  | an observer looks around           |
| any           | an epoch above its own, in whatever came     | unattached  | PersistVote, LostLeadership        |
| any           | a request of an older epoch                  | the same    | an answer that names its own       |
| unattached    | time is up                                   | prospective | SendVote (pre-vote) to all others  |
| follower      | no fetch succeeded in time                   | prospective | the same                           |
| prospective   | a majority would grant; best of all (R17)    | candidate   | PersistVote(epoch + 1), SendVote   |
| prospective   | time is up                                   | prospective | the next round                     |
| candidate     | a majority granted (R17's round: all)        | leader      | StartEpoch, AppendLeaderChange, …  |
| candidate     | time is up                                   | prospective | the next round                     |
| those four    | somebody leads in its epoch                  | follower    | FetchFrom                          |
| follower      | QuorumFetchAnswered                          | follower    | AppendFetched, TruncateTo, Load…   |
| follower      | the log moved                                | follower    | HighWatermarkMoved, FetchFrom      |
| follower      | LeaderResigned: first successor, or not      | prospective, unattached                          |
| leader        | QuorumFetched                                | leader      | HighWatermarkMoved, AnswerFetch    |
| leader        | the log moved                                | leader      | HighWatermarkMoved                 |
| leader        | a majority has not fetched in time; stopping | resigned    | LostLeadership, SendEndEpoch       |
| resigned      | time is up                                   | unattached  |                                    |
| observer      | its leader is silent or none                 | observer    | FetchFrom any voter                |

An observer never leaves its role: it has a leader or looks for one. A replica that would have to cut committed
records stops for good (`failure`). Nothing leaves this machine that rests on a vote or epoch not yet durable: such
effects wait inside until VotePersisted.

Pure: time comes with events, chance through `draw`, and the log is only looked at.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple

from hightide.errors import ErrorCode
from hightide.replication.commit import majority_high_watermark
from hightide.replication.effects import AppendFetched, AppendLeaderChange, HighWatermarkMoved, StartEpoch, TruncateTo
from hightide.replication.elections import LogPosition, Round, VoteAnswer
from hightide.replication.events import LogAdvanced, LogTruncated, TimePassed
from hightide.replication.quorum_effects import (
    AnswerBeginEpoch,
    AnswerEndEpoch,
    AnswerFetch,
    AnswerSnapshotFetch,
    AnswerVote,
    BecameLeader,
    EndDoubt,
    InstallSnapshot,
    LeaderChanged,
    LoadSnapshot,
    LostLeadership,
    QuorumEffect,
    SendBeginEpoch,
    SendEndEpoch,
    SendVote,
    StopFatally,
)
from hightide.replication.quorum_events import (
    EpochAnswered,
    LeaderAnnounced,
    LeaderResigned,
    QuorumEvent,
    QuorumFetchAnswered,
    QuorumFetched,
    QuorumFetchFailed,
    ResignationRequested,
    SnapshotDownloaded,
    SnapshotFailed,
    SnapshotProgressed,
    SnapshotRequested,
    SnapshotTaken,
    Started,
    VoteAnswered,
    VotePersisted,
    VoteRequested,
)
from hightide.replication.quorum_following import Following
from hightide.replication.quorum_outbox import Outbox
from hightide.replication.quorum_progress import NEVER, Progress
from hightide.replication.snapshots import EpochEnd, QuorumLog, SnapshotId, check_position, truncation_point
from hightide.replication.voters import VoterSet, may_be_same_disk
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_BROKER, NO_OFFSET, ZERO_UUID

UNHEARD_OBSERVER_SECONDS = 300.0  # Kafka's: after that an observer is no longer shown


class Role(Enum):
    """What a replica does in its epoch."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"
    OBSERVER = "observer"


class QuorumTimeouts(NamedTuple):
    """In seconds; Kafka's `controller.quorum.*` with its defaults. A leader resigns after 1.5 times `fetch`."""

    election: float = 1.0
    fetch: float = 2.0
    retry_backoff: float = 0.02

    @property
    def check_quorum(self) -> float:
        """Longer than a follower's patience: the quorum may elect another, but does not stay without one."""
        return self.fetch * 1.5


class QuorumReplica:
    """The machine of one replica.

    Invariants: `epoch` and `high_watermark` never fall; `voted` changes at most once in an epoch; `leader` is this node
    exactly while `role` is LEADER; `progress` is there exactly while it leads.
    """

    # fmt: off
    __slots__ = (
        "_box", "_deadline", "_draw", "_following", "_log", "_lost_leader", "_on", "_round", "_rules",
        "directory_id", "doubtful", "epoch", "failure", "high_watermark", "is_voter", "leader", "node_id",
        "progress", "role", "snapshot", "timeouts", "voted", "voters",
    )
    # fmt: on

    def __init__(
        self,
        node_id: int,
        voters: VoterSet,
        log: QuorumLog,
        draw: Callable[[], float],
        *,
        timeouts: QuorumTimeouts = QuorumTimeouts(),  # noqa: B008 (immutable)
        directory_id: bytes = ZERO_UUID,
        high_watermark: int = 0,
        snapshot: SnapshotId | None = None,
        rules: Rules = ALL_ON,
    ) -> None:
        self.node_id = node_id
        self.voters = voters
        self.directory_id = directory_id
        self.timeouts = timeouts
        self.snapshot = snapshot
        self.high_watermark = max(log.start, min(high_watermark, log.end))
        self.is_voter = voters.includes(node_id, directory_id) if rules.r9_directory_ids else node_id in voters
        self.role = Role.UNATTACHED if self.is_voter else Role.OBSERVER
        self.epoch = 0
        self.voted = NO_BROKER
        self.leader = NO_BROKER
        self.doubtful = False
        self.failure: str | None = None
        self.progress: Progress | None = None
        self._log = log
        self._draw = draw
        self._rules = rules
        self._box = Outbox(waits=rules.r9_durable_vote)
        self._following = Following()
        self._round: Round | None = None
        self._deadline: float | None = None
        self._lost_leader = NO_BROKER
        self._on: dict[type, Callable[[Any], None]] = {
            Started: self._started,
            TimePassed: self._time_passed,
            VotePersisted: self._vote_persisted,
            VoteRequested: self._vote_requested,
            VoteAnswered: self._vote_answered,
            LeaderAnnounced: self._leader_announced,
            LeaderResigned: self._leader_resigned,
            EpochAnswered: self._epoch_answered,
            QuorumFetched: self._quorum_fetched,
            QuorumFetchAnswered: self._fetch_answered,
            QuorumFetchFailed: self._fetch_failed,
            SnapshotRequested: self._snapshot_requested,
            SnapshotProgressed: self._snapshot_progressed,
            SnapshotDownloaded: self._snapshot_downloaded,
            SnapshotFailed: self._snapshot_failed,
            SnapshotTaken: self._snapshot_taken,
            LogAdvanced: self._log_moved,
            LogTruncated: self._log_moved,
            ResignationRequested: self._resignation_requested,
        }

    # ------------------------------------------------------------------ from outside

    def handle(self, event: QuorumEvent) -> list[QuorumEffect]:
        """One event, the effects it has."""
        if self.failure is not None:
            return []
        box = self._box
        out: list[QuorumEffect] = []
        box.out = out
        self._on[type(event)](event)
        if box.is_unsaved:
            box.persist(self.epoch, self.voted, self.leader)
        return out

    @property
    def is_leader(self) -> bool:
        """Whether this node may append."""
        return self.role is Role.LEADER

    @property
    def next_deadline(self) -> float | None:
        """When TimePassed is wanted."""
        other = self._following.retry_at if self.progress is None else self.progress.announce_at
        if other is None or self._deadline is None:
            return self._deadline if other is None else other
        return min(self._deadline, other)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, be it in the log or in the snapshot under it."""
        if self._log.end == self._log.start and self.snapshot is not None:
            return self.snapshot.epoch
        return self._log.last_epoch

    def quorum_contact(self, now: float) -> float:
        """R16's q: a majority of voters answered to what this leader sent at or after that time; -inf when not."""
        return NEVER if self.progress is None else self.progress.majority_contact(now)

    def may_snapshot(self, end: int) -> bool:
        """Whether a snapshot may end here: committed, newer than the last one, and between two batches (I17)."""
        if end > self.high_watermark or (self.snapshot is not None and end <= self.snapshot.end):
            return False
        return self._log.is_boundary(end) or not self._rules.r9_snapshots_on_boundaries

    # ------------------------------------------------------------------ votes and epochs

    def _vote_persisted(self, event: VotePersisted) -> None:
        is_newest = (event.epoch, event.voted) == (self.epoch, self.voted)
        self._box.persisted(is_newest=is_newest)
        if not is_newest:
            return
        if self.role is Role.CANDIDATE:
            self._vote_for_itself(event.now)

    def _started(self, event: Started) -> None:
        self.epoch, self.voted, self.doubtful = event.epoch, event.voted, event.doubtful
        if self.last_epoch > self.epoch:
            # Somebody led in the epoch of the last record. Whom this voter chose there is forgotten, so it is taken
            # to have chosen itself: it grants nobody else, and itself it never asks again in an old epoch.
            self.epoch, self.voted = self.last_epoch, self.node_id
            self._box.is_unsaved = True
        if not self.is_voter:
            self._look_around(event.now)
        elif self.voted == self.node_id and not self._rules.r9_never_resume_epoch:
            self._stand(event.now, self.epoch, all_voters=False)
        elif len(self.voters) == 1:
            self._ask_around(event.now)
        else:
            # Asking early disturbs nobody, and the refusals name the leader.
            self._rest(event.now, event.now + self._draw() * self.timeouts.election / 10)

    def _enter(self, epoch: int) -> None:
        """Move to a newer epoch, in which nothing is known yet. The caller says what to do there."""
        self._step_down()
        self.epoch = epoch
        self.voted = NO_BROKER
        self._box.is_unsaved = True
        self._lost_leader = NO_BROKER
        self._box.withdraw_requests()
        self._set_leader(NO_BROKER)

    def _step_down(self) -> None:
        if self.role is Role.LEADER:
            self.role = Role.RESIGNED
            self.progress = None
            self._box.out.append(LostLeadership(self.epoch))
            self._set_leader(NO_BROKER)

    def _set_leader(self, leader: int) -> None:
        if leader != self.leader:
            self.leader = leader
            self._box.out.append(LeaderChanged(leader, self.epoch))

    def _learn(self, leader: int, epoch: int, now: float) -> bool:
        """Take over what an answer says about epoch and leader; whether that changed what this node does."""
        if epoch > self.epoch:
            self._enter(epoch)
            if leader in (NO_BROKER, self.node_id):
                self._wait(now)
            else:
                self._follow(leader, now)
            return True
        if epoch < self.epoch or leader in (NO_BROKER, self.node_id, self.leader, self._lost_leader):
            return False
        if self.leader != NO_BROKER or self.role is Role.RESIGNED:
            return False
        self._follow(leader, now)
        return True

    # ------------------------------------------------------------------ waiting and standing

    def _patience(self) -> float:
        return self.timeouts.election * (1 + self._draw())

    def _rest(self, now: float, until: float) -> None:
        """Wait for a leader until then, as nobody's follower."""
        if not self.is_voter:
            self._look_around(now)
            return
        self.role = Role.UNATTACHED
        self._following.stop()
        self._deadline = until

    def _wait(self, now: float) -> None:
        self._rest(now, now + self._patience())

    def _ask_around(self, now: float) -> None:
        """Ask every voter whether it would grant a vote, before an epoch is spent on it (KIP-996)."""
        self._set_leader(NO_BROKER)
        if not self._rules.r9_prevote and not self._is_silenced:
            self._stand(now, self.epoch + 1, all_voters=False)
            return
        self.role = Role.PROSPECTIVE
        self._following.stop()
        self._deadline = now + self._patience()
        self._open_round(self.epoch, pre_vote=True, all_voters=False)
        self._vote_for_itself(now)

    def _stand(self, now: float, epoch: int, *, all_voters: bool) -> None:
        """Spend an epoch: vote for itself, durably, then ask the others."""
        self._set_leader(NO_BROKER)
        self.role = Role.CANDIDATE
        self._following.stop()
        self.epoch, self.voted = epoch, self.node_id
        self._box.is_unsaved = True
        self._lost_leader = NO_BROKER
        self._deadline = now + self._patience()
        self._open_round(epoch, pre_vote=False, all_voters=all_voters)
        if not self._box.waits:
            self._vote_for_itself(now)

    def _open_round(self, epoch: int, *, pre_vote: bool, all_voters: bool) -> None:
        self._round = Round(self.voters, all_voters=all_voters)
        for voter in self.voters:
            if voter.id != self.node_id:
                self._box.send(
                    SendVote(
                        voter.id, epoch, self.last_epoch, self._log.end, pre_vote, voter.directory_id, all_voters
                    )
                )  # fmt: skip

    def _vote_for_itself(self, now: float) -> None:
        if self._round is not None:
            granted = self.role is Role.CANDIDATE or not self._is_silenced
            position = LogPosition(self.last_epoch, self._log.end)
            self._round.answered(self.node_id, VoteAnswer(granted, position, self.doubtful, knows_leader=False))
            self._count(now)

    @property
    def _is_silenced(self) -> bool:
        """R17: neither stands nor grants."""
        return self.doubtful and self._rules.r17_doubtful_voters

    def _vote_answered(self, event: VoteAnswered) -> None:
        if event.voter == event.leader and event.epoch == self.epoch:
            self._lost_leader = NO_BROKER  # it speaks for itself: not lost at all
        if (event.epoch > self.epoch or not event.granted) and self._learn(event.leader, event.epoch, event.now):
            return
        if event.epoch != self.epoch or self._round is None:
            return
        if self.role is (Role.PROSPECTIVE if event.pre_vote else Role.CANDIDATE):
            position = LogPosition(event.last_epoch, event.end)
            knows_leader = event.leader != NO_BROKER
            self._round.answered(event.voter, VoteAnswer(event.granted, position, event.doubtful, knows_leader))
            self._count(event.now)

    def _count(self, now: float) -> None:
        votes = self._round
        assert votes is not None
        if self.role is Role.CANDIDATE:
            if votes.is_won:
                self._lead(now, votes)
        elif votes.is_won and not self._is_silenced:
            self._stand(now, self.epoch + 1, all_voters=False)
        elif votes.is_best_of_all(self.node_id):
            self._stand(now, self.epoch + 1, all_voters=True)

    def _vote_requested(self, event: VoteRequested) -> None:
        if not self._is_addressed(event.voter_directory_id) or not self._knows(
            event.candidate, event.candidate_directory_id
        ):
            self._answer_vote(event, ErrorCode.INVALID_VOTER_KEY, granted=False)
            return
        if event.epoch < self.epoch:
            self._answer_vote(event, ErrorCode.FENCED_LEADER_EPOCH, granted=False)
            return
        if event.epoch > self.epoch:
            self._enter(event.epoch)
            self._wait(event.now)
        granted = self._would_grant(event) if event.pre_vote else self._grants(event)
        if granted and not event.pre_vote and self.voted == NO_BROKER:
            self.voted = event.candidate
            self._box.is_unsaved = True
            self._wait(event.now)
        self._answer_vote(event, ErrorCode.NONE, granted=granted)

    def _would_grant(self, event: VoteRequested) -> bool:
        """Pre-vote: whoever hears its leader does not want another (KIP-996)."""
        hears_leader = self.role is Role.LEADER or (self.role is Role.FOLLOWER and self._following.has_fetched)
        return not hears_leader and not self._is_silenced and self._is_up_to_date(event)

    def _grants(self, event: VoteRequested) -> bool:
        if self.voted != NO_BROKER or self.leader != NO_BROKER:
            return self.voted == event.candidate
        return (not self._is_silenced or event.all_voters) and self._is_up_to_date(event)

    def _is_up_to_date(self, event: VoteRequested) -> bool:
        own = (self.last_epoch, self._log.end)
        return (event.last_epoch, event.end) >= own or not self._rules.r9_up_to_date_votes

    def _is_addressed(self, directory_id: bytes) -> bool:
        """Whether a request to a voter means this one, on this disk."""
        return self.is_voter and (
            may_be_same_disk(directory_id, self.directory_id) or not self._rules.r9_directory_ids
        )  # fmt: skip

    def _knows(self, voter: int, directory_id: bytes) -> bool:
        return self.voters.includes(voter, directory_id) if self._rules.r9_directory_ids else voter in self.voters

    def _answer_vote(self, event: VoteRequested, error: ErrorCode, *, granted: bool) -> None:
        self._box.send(
            AnswerVote(
                event.request, event.candidate, error, self.leader, self.epoch, granted,
                self.last_epoch, self._log.end, self.doubtful,
            )
        )  # fmt: skip

    # ------------------------------------------------------------------ leading

    def _lead(self, now: float, votes: Round) -> None:
        self._set_leader(self.node_id)
        self.role = Role.LEADER
        self._round = None
        self.progress = Progress(self.node_id, self.voters, self._log.end, now)
        self._deadline = now + self.timeouts.check_quorum
        self._box.out += (
            BecameLeader(self.epoch, votes.all_voters),
            StartEpoch(self.epoch, self._log.end),
            AppendLeaderChange(self.epoch, self.voters.ids),
        )
        self._announce(self.progress, now)

    def _announce(self, progress: Progress, now: float) -> None:
        """Tell voters that have not fetched lately who leads; those that fetch know."""
        interval = self.timeouts.fetch / 2
        progress.announce_at = now + interval
        for voter in progress.silent_voters(now - interval):
            self._box.send(SendBeginEpoch(voter, self.epoch, self.voters.directory_of(voter)))
        progress.forget_observers(now - UNHEARD_OBSERVER_SECONDS)

    def _check_quorum(self, progress: Progress, now: float) -> None:
        """KAFKA-15489: a leader that a majority no longer fetches from must not go on believing in itself."""
        if not self._rules.r9_check_quorum:
            self._deadline = None
            return
        self._deadline = progress.majority_fetched_at(now) + self.timeouts.check_quorum
        if now >= self._deadline:
            self._resign(progress, now)

    def _resign(self, progress: Progress, now: float) -> None:
        successors = progress.successors()
        self._step_down()
        self._deadline = now + self._patience()
        for voter in successors:
            self._box.send(SendEndEpoch(voter, self.epoch, successors))

    def _resignation_requested(self, event: ResignationRequested) -> None:
        if self.progress is not None:
            self._resign(self.progress, event.now)

    def _refusal(self, epoch: int) -> ErrorCode:
        """Why this node does not serve a follower of that epoch, if it does not."""
        if epoch < self.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > self.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if self.role is Role.LEADER else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _quorum_fetched(self, event: QuorumFetched) -> None:
        request, replica, epoch, offset, last_epoch, now, directory_id, answered_at = event
        progress = self.progress
        if progress is None or epoch != self.epoch:
            self._box.send(
                AnswerFetch(
                    request, replica, self._refusal(epoch), self.leader, self.epoch, offset, self.high_watermark
                )
            )  # fmt: skip
            return
        fetcher = progress.fetcher(replica, self._knows(replica, directory_id), now)
        fetcher.fetched_at = now
        if answered_at > fetcher.contact:
            fetcher.contact = answered_at
        verdict = check_position(self._log, self.snapshot, offset, last_epoch)
        if verdict is None:
            if offset >= self._log.end:
                fetcher.caught_up_at = now
            if offset != fetcher.position:
                fetcher.position = offset
                self._advance(progress)
        diverging = verdict if isinstance(verdict, EpochEnd) else None
        snapshot = verdict if isinstance(verdict, SnapshotId) else None
        self._box.send(
            AnswerFetch(
                request, replica, ErrorCode.NONE, self.leader, self.epoch, offset, self.high_watermark,
                diverging, snapshot,
            )
        )  # fmt: skip

    def _snapshot_requested(self, event: SnapshotRequested) -> None:
        error = self._refusal(event.epoch)
        if self.progress is not None and not error:
            counts = self._knows(event.replica, event.directory_id)
            self.progress.fetcher(event.replica, counts, event.now).fetched_at = event.now
        self._box.send(AnswerSnapshotFetch(event.request, event.replica, error, self.leader, self.epoch))

    def _advance(self, progress: Progress) -> None:
        """The majority rule: up to where a majority is on disk, once that covers a record of this epoch (R9)."""
        log, rules = self._log, self._rules
        ends = progress.ends(log.synced_end if rules.r9_synced_ends else log.end)
        floor = progress.epoch_start if rules.r9_own_epoch else NO_OFFSET
        self._raise_high_watermark(majority_high_watermark(self.high_watermark, ends, floor))
        if self.doubtful:
            self._reconsider_doubt()

    def _raise_high_watermark(self, high_watermark: int) -> None:
        if high_watermark > self.high_watermark:
            self.high_watermark = high_watermark
            self._box.out.append(HighWatermarkMoved(high_watermark))

    def _reconsider_doubt(self) -> None:
        """A doubtful log is whole again when it holds all that its leader had committed, in its own epoch too (R17)."""
        committed = self._following.high_watermark if self.progress is None else self.high_watermark
        if self.last_epoch == self.epoch and self._start_of_epoch() < committed <= self._log.synced_end:
            self.doubtful = False
            self._box.out.append(EndDoubt())

    def _start_of_epoch(self) -> int:
        """Where the newest epoch begins in this log, as far as it can tell."""
        if self.snapshot is not None and self.snapshot.epoch == self.epoch:
            return self.snapshot.end - 1
        return self._log.end_of_epoch(self.epoch - 1)[1] if self.progress is None else self.progress.epoch_start

    # ------------------------------------------------------------------ following

    def _leader_announced(self, event: LeaderAnnounced) -> None:
        error = ErrorCode.NONE
        if not self._is_addressed(event.voter_directory_id) or event.leader not in self.voters:
            error = ErrorCode.INVALID_VOTER_KEY
        elif event.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif event.epoch == self.epoch and event.leader == self.leader:
            self._following.retry_at = None
            self._fetch_next()
        else:
            if event.epoch == self.epoch:
                self._lost_leader = NO_BROKER
            if not self._learn(event.leader, event.epoch, event.now):
                error = ErrorCode.INVALID_REQUEST
        self._box.send(AnswerBeginEpoch(event.request, error, self.leader, self.epoch))

    def _leader_resigned(self, event: LeaderResigned) -> None:
        error = ErrorCode.NONE
        if event.epoch < self.epoch:
            error = ErrorCode.FENCED_LEADER_EPOCH
        elif event.epoch > self.epoch or self.role in (Role.FOLLOWER, Role.UNATTACHED, Role.OBSERVER):
            if event.epoch > self.epoch:
                self._enter(event.epoch)
            self._lost_leader = event.leader
            self._succeed(event)
        self._box.send(AnswerEndEpoch(event.request, error, self.leader, self.epoch))

    def _succeed(self, event: LeaderResigned) -> None:
        """The first successor asks around at once, the others give it time in their order."""
        now = event.now
        self._set_leader(NO_BROKER)
        if not self.is_voter or self.node_id not in event.successors:
            self._wait(now)
        elif event.successors[0] == self.node_id:
            self._ask_around(now)
        else:
            turn = event.successors.index(self.node_id)
            self._rest(now, now + self.timeouts.election * (turn + self._draw()) / 2)

    def _epoch_answered(self, event: EpochAnswered) -> None:
        self._learn(event.leader, event.epoch, event.now)

    def _follow(self, leader: int, now: float) -> None:
        self._following.stop()
        self._set_leader(leader)
        if self.is_voter:
            self.role = Role.FOLLOWER
        self._round = None
        self._deadline = now + self.timeouts.fetch
        self._fetch_next()

    def _look_around(self, now: float) -> None:
        """An observer asks one voter after the other, by fetching; whoever it is names the leader."""
        self.role = Role.OBSERVER
        self._following.stop()
        self._set_leader(NO_BROKER)
        self._deadline = now + self._patience()
        others = [voter for voter in self.voters.ids if voter != self.node_id]
        if others:
            self._ask_for_records(others[int(self._draw() * len(others))])

    def _ask_for_records(self, of: int) -> None:
        self._box.send(self._following.ask(of, self.epoch, self._log.end, self.last_epoch))

    def _fetch_next(self) -> None:
        """Ask for more, once all that was written is on disk: the offset of a fetch is a promise (C17, R19)."""
        if self.leader in (NO_BROKER, self.node_id) or self._following.is_busy:
            return
        if self._log.synced_end >= self._log.end or not self._rules.r9_synced_ends:
            self._ask_for_records(self.leader)

    def _fetch_answered(self, event: QuorumFetchAnswered) -> None:
        now = event.now
        is_current = event.fetch == self._following.fetch
        if is_current:
            self._following.fetch = None
        if self._learn(event.leader, event.epoch, now) or not is_current:
            return
        if event.error or event.epoch != self.epoch or event.leader != event.fetch.to:
            if event.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._mistrust(event.fetch.to, now)
            self._fetch_later(now)
            return
        self._set_leader(event.leader)  # news to an observer that happened to ask the right one
        self._lost_leader = NO_BROKER
        self._deadline = now + self.timeouts.fetch
        self._following.has_fetched = True
        if event.diverging is not None:
            self._cut(event.diverging)
        elif event.snapshot is not None:
            self._following.load = LoadSnapshot(event.leader, self.epoch, event.snapshot)
            self._box.out.append(self._following.load)
        else:
            self._following.high_watermark = event.high_watermark
            if event.has_records:
                self._box.out.append(AppendFetched(self.epoch))
            else:
                self._take_high_watermark()
                self._fetch_next()

    def _cut(self, diverging: EpochEnd) -> None:
        """R1, and nothing else of that answer. The next fetch follows the truncation."""
        offset = truncation_point(self._log, diverging)
        if offset < self.high_watermark and self._rules.r9_keep_committed:
            self._fail(f"the leader's log leaves this one at {offset}, below the high watermark {self.high_watermark}")
        else:
            self._box.out.append(TruncateTo(offset))

    def _fail(self, reason: str) -> None:
        self.failure = reason
        self._box.out.append(StopFatally(reason))

    def _fetch_failed(self, event: QuorumFetchFailed) -> None:
        if self._following.fetch not in (None, event.fetch):
            return
        self._following.fetch = None
        if event.refused:
            self._mistrust(event.fetch.to, event.now)
        self._fetch_later(event.now)

    def _mistrust(self, leader: int, now: float) -> None:
        """It is gone or says that it does not lead. Whoever still hears it refuses a pre-vote, so why wait?"""
        if leader != self.leader:
            return
        if self.role is Role.OBSERVER:
            self._set_leader(NO_BROKER)
        elif self._deadline is not None:
            self._deadline = min(self._deadline, now + self._draw() * self.timeouts.election / 10)

    def _fetch_later(self, now: float) -> None:
        if self.role in (Role.FOLLOWER, Role.OBSERVER):
            self._following.retry_at = now + self.timeouts.retry_backoff

    def _log_moved(self, _: LogAdvanced | LogTruncated) -> None:
        if self.progress is not None:
            self._advance(self.progress)
        elif self.leader != NO_BROKER:
            self._take_high_watermark()
            self._fetch_next()

    def _take_high_watermark(self) -> None:
        """What is committed and here: the answer's mark counts up to the own end only (correction 3)."""
        self._raise_high_watermark(min(self._following.high_watermark, self._log.end))
        if self.doubtful:
            self._reconsider_doubt()

    # ------------------------------------------------------------------ snapshots

    def _snapshot_taken(self, event: SnapshotTaken) -> None:
        if self.snapshot is None or event.snapshot.end > self.snapshot.end:
            self.snapshot = event.snapshot

    def _snapshot_progressed(self, event: SnapshotProgressed) -> None:
        if event.load == self._following.load:
            self._deadline = event.now + self.timeouts.fetch

    def _snapshot_downloaded(self, event: SnapshotDownloaded) -> None:
        """Still the follower that asked for it? A leader never loads a snapshot (I18)."""
        if event.load != self._following.load:
            return
        self._following.load = None
        snapshot = event.load.snapshot
        self._deadline = event.now + self.timeouts.fetch
        if snapshot.end < self.high_watermark and self._rules.r9_keep_committed:
            self._fail(f"the leader's snapshot ends at {snapshot.end}, below the high watermark {self.high_watermark}")
            return
        self.snapshot = snapshot
        self._box.out.append(InstallSnapshot(snapshot))
        self._raise_high_watermark(snapshot.end)

    def _snapshot_failed(self, event: SnapshotFailed) -> None:
        if event.load == self._following.load:
            self._following.load = None
            if not self._learn(event.leader, event.epoch, event.now):
                self._fetch_later(event.now)

    # ------------------------------------------------------------------ time

    def _time_passed(self, event: TimePassed) -> None:
        now, progress = event.now, self.progress
        if progress is not None:
            if self._deadline is not None and now >= self._deadline:
                self._check_quorum(progress, now)
            if self.progress is not None and now >= progress.announce_at:
                self._announce(progress, now)
            return
        if self._deadline is not None and now >= self._deadline:
            self._give_up_waiting(now)
        elif self._following.retry_at is not None and now >= self._following.retry_at:
            self._following.retry_at = None
            if self.leader == NO_BROKER:
                self._look_around(now)
            else:
                self._fetch_next()

    def _give_up_waiting(self, now: float) -> None:
        if self.role is Role.RESIGNED:
            self._wait(now)
            return
        if self.leader != NO_BROKER:
            if self._following.fetch is None and self._log.synced_end < self._log.end:
                self._deadline = now + self.timeouts.fetch / 2  # not the leader is slow, but the own disk
                return
            self._lost_leader = self.leader
        if self.role is Role.OBSERVER:
            self._look_around(now)
        else:
            self._ask_around(now)
