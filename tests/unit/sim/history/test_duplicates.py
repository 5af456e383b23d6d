"""K2: one value at two offsets."""

from hightide.sim.history import duplicates
from tests.unit.sim.history.stories import OTHER, Story


def test_a_retry_that_was_kept_twice() -> None:
    story = Story()
    send = story.unknown(1)
    poll = story.read((0, 1), (1, 1))
    assert story.finds("K2") == ["orders-0: 1 is at several offsets: 0, 1"]
    assert duplicates.check(story.history)[0].operations == (send, poll, poll)


def test_acknowledged_in_one_place_and_read_in_another() -> None:
    story = Story()
    story.sent(1, at=7)
    story.read((3, 1))
    assert story.finds("K2") == ["orders-0: 1 is at several offsets: 3, 7"]


def test_three_copies_are_one_finding() -> None:
    story = Story()
    story.sent(1, at=7)
    story.read((3, 1), (7, 1), (9, 1))
    assert story.finds("K2") == ["orders-0: 1 is at several offsets: 3, 7, 9"]


def test_without_idempotence_a_retry_may_be_kept_twice() -> None:
    story = Story()
    story.sent(1, at=1, idempotent=False)
    story.read((0, 1), (1, 1))
    assert story.finds("K2") == []


def test_reading_one_copy_again_is_no_second_copy() -> None:
    story = Story()
    story.sent(1, at=0)
    story.sent(1, at=4, partition=OTHER)
    story.read((0, 1), client="a")
    story.read((0, 1), client="b")
    story.read((4, 1), client="b", partition=OTHER)
    assert story.finds("K2") == []
