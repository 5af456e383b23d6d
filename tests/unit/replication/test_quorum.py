"""Single transitions of the elected replica that no script tells; the stories are in tests/scripts/raft."""

import pytest

from hightide.errors import ErrorCode
from hightide.replication.effects import AppendFetched, AppendLeaderChange, HighWatermarkMoved, TruncateTo
from hightide.replication.events import LogAdvanced, LogTruncated, TimePassed
from hightide.replication.quorum import QuorumReplica, Role
from hightide.replication.quorum_effects import (
    AnswerBeginEpoch,
    AnswerEndEpoch,
    AnswerFetch,
    AnswerSnapshotFetch,
    AnswerVote,
    BecameLeader,
    EndDoubt,
    FetchFrom,
    InstallSnapshot,
    LeaderChanged,
    LoadSnapshot,
    LostLeadership,
    PersistVote,
    SendBeginEpoch,
    SendVote,
    StopFatally,
)
from hightide.replication.quorum_events import (
    EpochAnswered,
    LeaderAnnounced,
    LeaderResigned,
    QuorumFetchAnswered,
    QuorumFetched,
    QuorumFetchFailed,
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
from hightide.replication.quorum_progress import NEVER
from hightide.replication.snapshots import EpochEnd, SnapshotId
from hightide.replication.voters import Voter as Member
from hightide.replication.voters import VoterSet
from hightide.sim.level0.raft_log import Batch
from tests.unit.replication.quorums import Voter, log_of, none, only

# ---------------------------------------------------------------------- starting


def test_an_epoch_of_the_log_that_the_vote_file_does_not_know_is_never_voted_in_again() -> None:
    voter = Voter(1, 4)
    assert only(PersistVote, voter.start(2)) == PersistVote(4, 1, -1)
    answer = only(AnswerVote, voter.do(VoteRequested("r", 2, 4, 4, 9, False, 1.0)))
    assert (answer.granted, answer.epoch) == (False, 4)


def test_a_vote_of_a_former_life_binds() -> None:
    voter = Voter(1)
    voter.start(3, voted=2)
    assert only(AnswerVote, voter.do(VoteRequested("a", 2, 3, 1, 9, False, 1.0))).granted
    assert not only(AnswerVote, voter.do(VoteRequested("b", 3, 3, 1, 9, False, 1.0))).granted


def test_a_doubtful_voter_alone_stands_at_once() -> None:
    voter = Voter(1, voters=1)
    assert only(BecameLeader, voter.start(1, doubtful=True)) == BecameLeader(2, all_voters=True)
    assert not none(EndDoubt, voter.write(2))
    assert not voter.machine.doubtful


# ---------------------------------------------------------------------- votes


def test_a_vote_for_a_voter_that_is_none_is_refused() -> None:
    voter = Voter()
    voter.start()
    answer = only(AnswerVote, voter.do(VoteRequested("r", 7, 9, 1, 9, False, 1.0)))
    assert (answer.error, answer.granted, answer.epoch) == (ErrorCode.INVALID_VOTER_KEY, False, 0)


def test_a_request_of_an_older_epoch_learns_the_newer() -> None:
    voter = Voter()
    voter.follow(2, 5)
    answer = only(AnswerVote, voter.do(VoteRequested("r", 3, 4, 9, 9, False, 1.0)))
    assert (answer.error, answer.leader, answer.epoch) == (ErrorCode.FENCED_LEADER_EPOCH, 2, 5)


def test_everything_waits_for_the_newest_vote() -> None:
    voter = Voter()
    voter.start()
    machine = voter.machine
    assert machine.handle(VoteRequested("a", 2, 3, 1, 9, False, 1.0)) == [PersistVote(3, 2, -1)]
    assert machine.handle(VoteRequested("b", 3, 4, 1, 9, False, 1.0)) == []
    assert machine.handle(VotePersisted(3, 2, 1.0)) == [PersistVote(4, 3, -1)]
    answers = machine.handle(VotePersisted(4, 3, 1.0))
    assert [(effect.request, effect.granted) for effect in answers if isinstance(effect, AnswerVote)] == [
        ("a", True),
        ("b", True),
    ]


def test_a_follower_grants_a_pre_vote_until_it_has_fetched() -> None:
    voter = Voter(1)
    fetch = voter.follow(2, 5)
    request = VoteRequested("r", 3, 5, 4, 9, True, 1.0)
    assert only(AnswerVote, voter.do(request)).granted
    voter.do(QuorumFetchAnswered(fetch, 2, 5, 1.0, high_watermark=0))
    assert not only(AnswerVote, voter.do(request)).granted


def test_a_grant_that_names_a_leader_is_still_a_grant() -> None:
    voter = Voter(1)
    voter.start()
    voter.do(TimePassed(1.0))
    voter.do(VoteAnswered(2, 3, voter.machine.epoch, True, True, 1.0))
    assert voter.role() is Role.CANDIDATE


def test_votes_for_a_candidacy_given_up_count_no_more() -> None:
    voter = Voter(1)
    voter.start(1)
    voter.do(TimePassed(1.0))
    voter.do(VoteAnswered(2, -1, 1, True, True, 1.0))
    assert (voter.machine.role, voter.machine.epoch) == (Role.CANDIDATE, 2)
    voter.do(TimePassed(9.0))
    assert voter.role() is Role.PROSPECTIVE
    assert none(BecameLeader, voter.do(VoteAnswered(2, -1, 2, True, False, 9.0)))


def test_a_candidate_learns_that_another_won() -> None:
    voter = Voter(1)
    voter.start(1)
    voter.do(TimePassed(1.0))
    voter.do(VoteAnswered(2, -1, 1, True, True, 1.0))
    effects = voter.do(VoteAnswered(3, 2, 2, False, False, 1.0))
    assert only(LeaderChanged, effects) == LeaderChanged(2, 2)
    assert only(FetchFrom, effects).to == 2


# ---------------------------------------------------------------------- leading


def test_a_new_leader_writes_its_own_record_and_tells_everybody() -> None:
    voter = Voter(1)
    voter.start(1)
    voter.do(TimePassed(1.0))
    voter.do(VoteAnswered(2, -1, 1, True, True, 1.0))
    effects = voter.do(VoteAnswered(3, -1, 2, True, False, 1.0))
    assert only(AppendLeaderChange, effects) == AppendLeaderChange(2, (1, 2, 3))
    assert [effect.to for effect in effects if isinstance(effect, SendBeginEpoch)] == [2, 3]


def fetched(
    replica: int, offset: int, *, epoch: int = 2, now: float = 2.0, answered_at: float = NEVER
) -> QuorumFetched:
    return QuorumFetched("f", replica, epoch, offset, epoch if offset > 1 else 1, now, answered_at=answered_at)


def test_a_position_may_fall_and_the_high_watermark_does_not() -> None:
    voter = Voter(1)
    voter.lead()
    assert only(HighWatermarkMoved, voter.do(fetched(2, 2))).high_watermark == 2
    voter.do(fetched(2, 1))
    voter.write(2)
    assert none(HighWatermarkMoved, voter.do(LogAdvanced(3, 3)))
    assert voter.machine.high_watermark == 2
    assert only(HighWatermarkMoved, voter.do(fetched(3, 3))).high_watermark == 3


@pytest.mark.parametrize(("epoch", "error"), [(1, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.UNKNOWN_LEADER_EPOCH)])
def test_a_leader_serves_its_own_epoch_only(epoch: int, error: ErrorCode) -> None:
    voter = Voter(1)
    voter.lead()
    answer = only(AnswerFetch, voter.do(fetched(2, 2, epoch=epoch)))
    assert (answer.error, answer.leader, answer.epoch) == (error, 1, 2)
    assert only(AnswerSnapshotFetch, voter.do(SnapshotRequested("s", 2, epoch, 2.0))).error is error


def test_the_age_of_contact_is_that_of_answers_that_were_answered() -> None:
    voter = Voter(1)
    assert voter.machine.quorum_contact(1.0) == NEVER
    voter.lead()
    voter.do(fetched(2, 2, now=2.0))
    assert voter.machine.quorum_contact(3.0) == NEVER
    voter.do(fetched(2, 2, now=4.0, answered_at=2.5))
    assert voter.machine.quorum_contact(5.0) == 2.5


def test_whoever_fetches_a_snapshot_is_heard_of_too() -> None:
    voter = Voter(1)
    voter.lead()
    voter.do(SnapshotRequested("s", 2, 2, 3.0))
    voter.do(TimePassed(4.5))
    assert voter.role() is Role.LEADER
    effects = voter.do(TimePassed(6.5))
    assert only(LostLeadership, effects) == LostLeadership(2)


def test_voters_that_do_not_fetch_are_told_again_who_leads() -> None:
    voter = Voter(1)
    voter.lead()
    voter.do(fetched(2, 2, now=2.5))
    deadline = voter.machine.next_deadline
    assert deadline is not None
    effects = voter.do(TimePassed(deadline + 0.5))
    assert [effect.to for effect in effects if isinstance(effect, SendBeginEpoch)] == [3]


def test_a_newer_epoch_in_any_answer_deposes() -> None:
    voter = Voter(1)
    voter.lead()
    effects = voter.do(EpochAnswered(2, 3, 7, 2.0))
    assert only(LostLeadership, effects) == LostLeadership(2)
    assert (voter.machine.role, voter.machine.leader, voter.machine.epoch) == (Role.FOLLOWER, 3, 7)


# ---------------------------------------------------------------------- following


def test_a_fetch_follows_when_everything_is_on_disk() -> None:
    voter = Voter(1)
    fetch = voter.follow()
    effects = voter.do(QuorumFetchAnswered(fetch, 2, 5, 1.0, high_watermark=2, has_records=True))
    assert only(AppendFetched, effects) == AppendFetched(5)
    voter.log.append([Batch(1, 2, 5, 7)])
    effects = voter.do(LogAdvanced(2, 1))
    assert only(HighWatermarkMoved, effects).high_watermark == 2
    assert none(FetchFrom, effects)
    voter.log.synced_end = 2
    assert only(FetchFrom, voter.do(LogAdvanced(2, 2))).offset == 2


def test_while_its_own_disk_is_slow_a_follower_does_not_blame_the_leader() -> None:
    voter = Voter(1)
    fetch = voter.follow()
    voter.do(QuorumFetchAnswered(fetch, 2, 5, 1.0, has_records=True))
    voter.log.append([Batch(1, 2, 5, 7)])
    voter.do(LogAdvanced(2, 1))
    voter.do(TimePassed(10.0))
    assert voter.role() is Role.FOLLOWER
    voter.log.synced_end = 2
    voter.do(LogAdvanced(2, 2))
    voter.do(TimePassed(20.0))
    assert voter.role() is Role.PROSPECTIVE


def test_an_answer_to_another_question_is_no_answer() -> None:
    voter = Voter(1)
    fetch = voter.follow()
    voter.do(QuorumFetchFailed(fetch, 1.0))
    assert voter.machine.next_deadline == pytest.approx(1.02)
    again = only(FetchFrom, voter.do(TimePassed(1.1)))
    assert voter.do(QuorumFetchAnswered(fetch, 2, 5, 1.2, has_records=True)) == []
    assert voter.do(QuorumFetchFailed(fetch, 1.2)) == []
    assert not none(AppendFetched, voter.do(QuorumFetchAnswered(again, 2, 5, 1.2, has_records=True)))


def test_nobody_waits_for_a_leader_that_is_gone() -> None:
    voter = Voter(1)
    fetch = voter.follow()
    voter.do(QuorumFetchFailed(fetch, 1.0, refused=True))
    voter.do(TimePassed(1.1))
    assert voter.role() is Role.PROSPECTIVE


def test_nor_for_one_that_says_it_does_not_lead() -> None:
    voter = Voter(1)
    fetch = voter.follow()
    voter.do(QuorumFetchAnswered(fetch, -1, 5, 1.0, ErrorCode.NOT_LEADER_OR_FOLLOWER))
    voter.do(TimePassed(1.1))
    assert voter.role() is Role.PROSPECTIVE


def test_hearsay_of_a_lost_leader_is_not_believed_but_itself_is() -> None:
    voter = Voter(1)
    voter.follow(2, 5)
    voter.do(TimePassed(9.0))
    voter.do(VoteAnswered(3, 2, 5, False, True, 9.0))
    assert voter.role() is Role.PROSPECTIVE
    voter.do(VoteAnswered(2, 2, 5, False, True, 9.0))
    assert voter.role() is Role.FOLLOWER


def test_two_leaders_of_one_epoch_are_not_believed() -> None:
    voter = Voter(1)
    voter.follow(2, 5)
    answer = only(AnswerBeginEpoch, voter.do(LeaderAnnounced("b", 3, 5, 1.0)))
    assert (answer.error, answer.leader) == (ErrorCode.INVALID_REQUEST, 2)
    assert only(AnswerBeginEpoch, voter.do(LeaderAnnounced("b", 3, 4, 1.0))).error is ErrorCode.FENCED_LEADER_EPOCH


def test_the_second_successor_gives_the_first_its_chance() -> None:
    voter = Voter(1)
    voter.follow(2, 5)
    effects = voter.do(LeaderResigned("e", 2, 5, (3, 1), 2.0))
    assert only(AnswerEndEpoch, effects).leader == -1
    assert none(SendVote, effects)
    assert voter.machine.next_deadline == pytest.approx(2.75)
    assert only(AnswerEndEpoch, voter.do(LeaderResigned("e", 2, 4, (), 2.0))).error is ErrorCode.FENCED_LEADER_EPOCH


# ---------------------------------------------------------------------- cutting and snapshots


def test_a_divergence_is_cut_and_nothing_else_of_it_is_used() -> None:
    voter = Voter(1, 3)
    fetch = voter.follow()
    answer = QuorumFetchAnswered(fetch, 2, 5, 1.0, high_watermark=9, diverging=EpochEnd(2, 4))
    assert voter.do(answer) == [TruncateTo(1)]
    voter.log.truncate(1)
    effects = voter.do(LogTruncated(1, 1))
    assert none(HighWatermarkMoved, effects)
    assert only(FetchFrom, effects)[2:] == (5, 1, 1)


def test_after_a_fatal_finding_there_is_silence() -> None:
    log = log_of(1, 1)
    machine = QuorumReplica(1, VoterSet.of(1, 2, 3), log, lambda: 0.5, high_watermark=2)
    machine.handle(Started(5, -1, 0.0))
    fetch = only(FetchFrom, machine.handle(LeaderAnnounced(None, 2, 5, 1.0)))
    (effect,) = machine.handle(QuorumFetchAnswered(fetch, 2, 5, 1.0, diverging=EpochEnd(0, 1)))
    assert isinstance(effect, StopFatally)
    assert machine.failure == effect.reason
    assert machine.handle(TimePassed(99.0)) == []


SNAPSHOT = SnapshotId(4, 3)


def loading() -> tuple[Voter, LoadSnapshot]:
    voter = Voter(1)
    fetch = voter.follow()
    return voter, only(LoadSnapshot, voter.do(QuorumFetchAnswered(fetch, 2, 5, 1.0, snapshot=SNAPSHOT)))


def test_a_snapshot_on_its_way_keeps_the_leader_alive() -> None:
    voter, load = loading()
    voter.do(SnapshotProgressed(load, 2.5))
    voter.do(TimePassed(4.0))
    assert voter.role() is Role.FOLLOWER
    effects = voter.do(SnapshotDownloaded(load, 4.1))
    assert effects == [InstallSnapshot(SNAPSHOT), HighWatermarkMoved(4)]
    voter.log.restart_at(4)
    assert only(FetchFrom, voter.do(LogTruncated(4, 4)))[3:] == (4, 3)


def test_a_snapshot_that_failed_is_asked_for_again() -> None:
    voter, load = loading()
    voter.do(SnapshotFailed(load, 1.5))
    assert only(FetchFrom, voter.do(TimePassed(1.6))).offset == 1


def test_a_leader_never_loads_a_snapshot() -> None:
    voter, load = loading()
    voter.do(TimePassed(9.0))
    voter.do(VoteAnswered(3, -1, 5, True, True, 9.0))
    voter.do(VoteAnswered(3, -1, 6, True, False, 9.0))
    assert voter.machine.is_leader
    assert voter.do(SnapshotDownloaded(load, 9.1)) == []


def test_a_snapshot_below_the_high_watermark_is_fatal() -> None:
    voter, load = loading()
    voter.machine.high_watermark = 9
    assert not none(StopFatally, voter.do(SnapshotDownloaded(load, 1.5)))


def test_where_a_snapshot_may_end() -> None:
    voter = Voter(1)
    voter.log.append([Batch(1, 4, 1, 7)])
    voter.log.synced_end = 4
    voter.machine.high_watermark = 4
    assert [end for end in range(6) if voter.machine.may_snapshot(end)] == [0, 1, 4]
    voter.do(SnapshotTaken(SnapshotId(1, 1)))
    assert [end for end in range(6) if voter.machine.may_snapshot(end)] == [4]


# ---------------------------------------------------------------------- observers


def test_an_observer_looks_around_until_somebody_knows_more() -> None:
    observer = Voter(node=9)
    probe = only(FetchFrom, observer.start())
    assert probe.to == 2
    observer.do(QuorumFetchFailed(probe, 0.1, refused=True))
    probe = only(FetchFrom, observer.do(TimePassed(0.2)))
    effects = observer.do(QuorumFetchAnswered(probe, 3, 4, 0.3, ErrorCode.FENCED_LEADER_EPOCH))
    assert only(FetchFrom, effects)[1:3] == (3, 4)
    assert (observer.machine.role, observer.machine.leader) == (Role.OBSERVER, 3)


def test_an_observer_never_stands_and_never_grants() -> None:
    observer = Voter(node=9)
    observer.start()
    assert none(SendVote, observer.do(TimePassed(99.0)))
    answer = only(AnswerVote, observer.do(VoteRequested("r", 2, 3, 1, 1, False, 1.0)))
    assert (answer.granted, answer.error) == (False, ErrorCode.INVALID_VOTER_KEY)


def test_a_voter_on_another_disk_is_an_observer() -> None:
    members = VoterSet([Member(1, b"a" * 16), Member(2), Member(3)])
    machine = QuorumReplica(1, members, log_of(), lambda: 0.5, directory_id=b"b" * 16)
    assert machine.role is Role.OBSERVER
    assert not machine.is_voter
