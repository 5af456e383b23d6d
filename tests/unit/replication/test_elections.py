"""What the answers of a round add up to."""

from hightide.replication.elections import LogPosition, Round, VoteAnswer
from hightide.replication.voters import VoterSet


def answer(
    *, granted: bool = False, end: int = 5, epoch: int = 1, doubtful: bool = False, led: bool = False
) -> VoteAnswer:
    return VoteAnswer(granted, LogPosition(epoch, end), doubtful, led)


def test_a_majority_wins() -> None:
    votes = Round(VoterSet.of(1, 2, 3))
    votes.answered(1, answer(granted=True))
    assert not votes.is_won
    votes.answered(2, answer())
    assert not votes.is_won
    votes.answered(3, answer(granted=True))
    assert votes.is_won


def test_a_vote_once_given_counts_once_and_stays() -> None:
    votes = Round(VoterSet.of(1, 2, 3))
    votes.answered(2, answer(granted=True))
    votes.answered(2, answer(granted=True))
    assert not votes.is_won
    votes.answered(1, answer(granted=True))
    votes.answered(2, answer())  # a late copy of an older answer
    assert votes.is_won


def test_the_round_of_all_voters_needs_all() -> None:
    votes = Round(VoterSet.of(1, 2, 3), all_voters=True)
    votes.answered(1, answer(granted=True))
    votes.answered(2, answer(granted=True))
    assert not votes.is_won
    votes.answered(3, answer(granted=True))
    assert votes.is_won


def round_of(*answers: VoteAnswer) -> Round:
    votes = Round(VoterSet.of(1, 2, 3))
    for voter, given in enumerate(answers, 1):
        votes.answered(voter, given)
    return votes


def test_the_best_of_all_is_the_newest_log_then_the_lowest_id() -> None:
    doubt = answer(doubtful=True)
    assert round_of(doubt, doubt, doubt).is_best_of_all(1)
    assert not round_of(doubt, doubt, doubt).is_best_of_all(2)
    assert round_of(doubt, answer(end=6), doubt).is_best_of_all(2)
    assert round_of(answer(end=9, doubtful=True), answer(end=6), answer(epoch=2, end=1)).is_best_of_all(3)


def test_nobody_is_best_of_all_while_somebody_is_missing_or_led_or_no_one_is_doubtful() -> None:
    doubt = answer(doubtful=True)
    assert not round_of(doubt, doubt).is_best_of_all(1)
    assert not round_of(doubt, doubt, answer(led=True)).is_best_of_all(1)
    assert not round_of(answer(), answer(), answer()).is_best_of_all(1)
