"""K9 and K10: sends go backwards."""

from hightide.sim.history import send_order
from tests.unit.sim.history.stories import OTHER, Story


def test_a_batch_out_of_order() -> None:
    story = Story()
    send = story.unknown(1, 2)
    story.read((0, 2), (1, 1))
    assert story.finds("K9") == ["orders-0: 1 was sent before 2 but is at offset 1, behind 0"]
    assert send_order.check_within(story.history)[0].operations == (send,)


def test_a_batch_in_order_with_something_between() -> None:
    story = Story()
    story.unknown(1, 2, 3)
    story.unknown(9)
    story.read((0, 1), (1, 9), (2, 3))
    assert story.finds("K9") == []


def test_copies_of_a_batch_have_an_order_each() -> None:
    story = Story()
    story.sent(1, 2, at=3, idempotent=False)
    story.read((2, 2), (3, 1), (4, 2))
    assert story.finds("K9") == []


def test_pipelined_sends_overtake_each_other() -> None:
    story = Story()
    first, second = story.begin(1), story.begin(2)
    story.end(first, 8)
    story.end(second, 7)
    assert story.finds("K10") == ["orders-0: offset 7 was given to a later send than offset 8"]
    assert send_order.check_across(story.history)[0].operations == (first, second)


def test_the_order_may_be_known_from_polls_alone() -> None:
    story = Story()
    story.sent(1)
    story.sent(2)
    story.read((0, 2), (1, 1))
    assert story.finds("K10") == ["orders-0: offset 0 was given to a later send than offset 1"]


def test_a_batch_goes_behind_the_last_one() -> None:
    story = Story()
    first, second = story.begin(1, 2, 3), story.begin(4, 5)
    story.end(second, 2)
    story.end(first, 0)
    assert story.finds("K10") == ["orders-0: offset 2 was given to a later send than offset 2"]


def test_sends_in_order_of_the_calls_however_they_are_answered() -> None:
    story = Story()
    first, second, third = story.begin(1), story.begin(2, 3), story.begin(4)
    story.end(third, 9)
    story.end(first, 2)
    story.end(second, 5)
    assert story.finds("K10") == []


def test_without_idempotence_sends_in_flight_may_overtake() -> None:
    story = Story()
    first, second = story.begin(1, idempotent=False), story.begin(2, idempotent=False)
    story.end(first, 8)
    story.end(second, 7)
    assert story.finds("K10") == []


def test_without_idempotence_too_the_acknowledged_comes_first() -> None:
    story = Story()
    story.sent(1, at=8, idempotent=False)
    story.sent(2, at=7, idempotent=False)
    assert len(story.finds("K10")) == 1


def test_without_idempotence_a_copy_may_arrive_after_the_acknowledgement() -> None:
    story = Story()
    story.sent(1, idempotent=False)
    story.sent(2, at=4, idempotent=False)
    story.read((4, 2), (5, 1))
    assert story.finds("K10") == []


def test_what_was_given_up_may_arrive_late() -> None:
    story = Story()
    story.unknown(1)
    story.sent(2, at=0)
    story.read((0, 2), (1, 1))
    assert story.finds("K10") == []


def test_what_was_given_up_is_not_earlier_than_what_was_acknowledged_before() -> None:
    story = Story()
    story.sent(1, at=4)
    story.unknown(2)
    story.read((3, 2), (4, 1))
    assert len(story.finds("K10")) == 1


def test_other_producers_and_partitions_have_their_own_order() -> None:
    story = Story()
    first, second = story.begin(1, client="a"), story.begin(2, client="b")
    story.end(first, 8)
    story.end(second, 7)
    story.sent(3, at=0, client="a", partition=OTHER)
    assert story.finds("K10") == []
