"""K3: a committed value below the highest offset read, never read by anybody."""

from hightide.sim.history import unread
from hightide.sim.history.operations import Mark
from tests.unit.sim.history.stories import Story


def test_a_hole_below_what_was_read() -> None:
    story = Story()
    story.sent(1, at=0)
    lost = story.sent(2, at=1)
    story.sent(3, at=2)
    story.read((0, 1))
    poll = story.read((2, 3))
    assert story.finds("K3") == ["orders-0: 2 is at offset 1 and was never read, though 2 was"]
    assert unread.check(story.history)[0].operations == (lost, poll)


def test_one_value_of_a_batch_is_missing() -> None:
    story = Story()
    story.sent(1, 2, 3, at=0)
    story.read((0, 1), (2, 3))
    assert story.finds("K3") == ["orders-0: 2 is at offset 1 and was never read, though 2 was"]


def test_another_reader_may_have_read_it() -> None:
    story = Story()
    for value in range(3):
        story.sent(value, at=value)
    story.read((0, 0), (1, 1), client="a")
    story.goes(None, client="a")
    story.read((2, 2), client="b")
    assert story.finds("K3") == []


def test_what_lies_above_everything_read_may_still_come() -> None:
    story = Story()
    for value in range(3):
        story.sent(value, at=value)
    story.read((0, 0))
    assert story.finds("K3") == []


def test_unknown_and_failed_sends_need_not_be_read() -> None:
    story = Story()
    story.unknown(1)
    story.history.failed(story.begin(2))
    story.sent(3, at=2)
    story.sent(4, acks=1, at=1, idempotent=False)
    story.read((2, 3))
    assert story.finds("K3") == []


def test_a_reader_that_starts_at_the_end_owes_nothing_below() -> None:
    story = Story()
    for value in range(6):
        story.sent(value, at=value)
    story.goes(4)
    story.read((5, 5))
    assert story.finds("K3") == ["orders-0: 4 is at offset 4 and was never read, though 5 was"]


def test_each_reader_owes_its_own_way() -> None:
    story = Story()
    for value in range(9):
        story.sent(value, at=value)
    story.goes(6, client="late")
    story.read((6, 6), (8, 8), client="late")
    story.goes(0, client="early")
    story.read((0, 0), (2, 2), client="early")
    assert story.finds("K3") == [
        "orders-0: 1 is at offset 1 and was never read, though 2 was",
        "orders-0: 7 is at offset 7 and was never read, though 8 was",
    ]


def test_retention_may_remove_what_nobody_read() -> None:
    story = Story()
    for value in range(3):
        story.sent(value, at=value)
    story.told(2, Mark.LOG_START)
    story.read((2, 2))
    assert story.finds("K3") == []


def test_what_a_failed_poll_swallowed_is_not_lost() -> None:
    story = Story()
    for value in range(3):
        story.sent(value, at=value)
    story.read((0, 0))
    story.history.unknown(story.history.begin_poll("consumer"), "timed out")
    story.read((2, 2))
    assert story.finds("K3") == []
