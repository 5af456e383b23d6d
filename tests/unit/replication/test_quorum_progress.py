"""What a leader knows of those who fetch from it."""

from hightide.replication.quorum_progress import NEVER, Progress
from hightide.replication.voters import VoterSet


def progress(*others: int, now: float = 10.0) -> Progress:
    return Progress(1, VoterSet.of(1, *others), 5, now)


def test_an_unknown_position_is_no_position() -> None:
    assert sorted(progress(2, 3).ends(8)) == [-1, -1, 8]


def test_only_voters_count() -> None:
    state = progress(2, 3)
    state.fetcher(2, counts=False, now=11.0).position = 8  # its id on another disk
    state.fetcher(9, counts=True, now=11.0).position = 8
    assert sorted(state.ends(8)) == [-1, -1, 8]
    state.fetcher(2, counts=True, now=11.0).position = 7
    assert sorted(state.ends(8)) == [-1, 7, 8]


def test_a_majority_was_heard_of_when_enough_were() -> None:
    state = progress(2, 3, 4, 5)
    for voter, heard in ((2, 14.0), (3, 12.0), (4, 11.0), (5, 10.0)):
        state.voters[voter].fetched_at = heard
    assert state.majority_fetched_at(20.0) == 12.0


def test_alone_it_is_a_majority_now() -> None:
    assert progress().majority_fetched_at(20.0) == 20.0
    assert progress().majority_contact(20.0) == 20.0


def test_contact_is_never_without_an_answer_to_an_answer() -> None:
    state = progress(2, 3)
    assert state.majority_contact(20.0) == NEVER
    state.voters[3].contact = 18.0
    assert state.majority_contact(20.0) == 18.0


def test_voters_that_fetch_need_no_announcement() -> None:
    state = progress(2, 3, 4)
    state.voters[2].position, state.voters[2].fetched_at = 5, 12.0
    state.voters[3].position, state.voters[3].fetched_at = 5, 10.0
    assert state.silent_voters(11.0) == [3, 4]


def test_the_first_successor_holds_the_most() -> None:
    state = progress(2, 3, 4)
    state.voters[3].position = 9
    state.voters[4].position = 9
    assert state.successors() == (3, 4, 2)


def test_observers_that_went_away_are_forgotten() -> None:
    state = progress(2)
    state.fetcher(7, counts=False, now=10.0)
    state.fetcher(8, counts=False, now=20.0)
    state.forget_observers(15.0)
    assert list(state.observers) == [8]
