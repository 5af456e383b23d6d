"""Nothing that rests on a vote leaves before the vote is durable."""

from hightide.replication.quorum_effects import FetchFrom, LostLeadership, PersistVote, SendBeginEpoch, SendVote
from hightide.replication.quorum_outbox import Outbox

BEGIN = SendBeginEpoch(2, 5)
VOTE = SendVote(2, 5, 4, 10, pre_vote=False)
FETCH = FetchFrom(1, 2, 5, 10, 4)


def test_with_everything_saved_effects_go_at_once() -> None:
    box = Outbox(waits=True)
    box.send(BEGIN)
    box.persist(5, -1, 2)
    assert box.out == [BEGIN]


def test_unsaved_they_wait_for_the_disk_and_keep_their_order() -> None:
    box = Outbox(waits=True)
    box.is_unsaved = True
    box.send(VOTE)
    box.out.append(LostLeadership(4))
    box.send(BEGIN)
    box.persist(5, 1, -1)
    assert box.out == [LostLeadership(4), PersistVote(5, 1, -1)]
    box.out = []
    box.persisted(is_newest=True)
    assert box.out == [VOTE, BEGIN]


def test_one_vote_is_stored_at_a_time() -> None:
    box = Outbox(waits=True)
    box.is_unsaved = True
    box.persist(5, 1, -1)
    box.send(BEGIN)
    box.persist(6, -1, -1)
    assert box.out == [PersistVote(5, 1, -1)]
    box.out = []
    box.persisted(is_newest=False)
    box.persist(6, -1, -1)
    assert box.out == [PersistVote(6, -1, -1)]
    box.persisted(is_newest=True)
    assert box.out == [PersistVote(6, -1, -1), BEGIN]


def test_questions_of_a_past_epoch_are_not_asked() -> None:
    box = Outbox(waits=True)
    box.is_unsaved = True
    for effect in (VOTE, FETCH, BEGIN):
        box.send(effect)
    box.withdraw_requests()
    box.persisted(is_newest=True)
    assert box.out == [BEGIN]
