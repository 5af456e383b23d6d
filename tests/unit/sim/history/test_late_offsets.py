"""K14: an offset that was taken before the send began."""

import pytest

from hightide.sim.history import late_offsets
from hightide.sim.history.operations import Mark
from tests.unit.sim.history.stories import OTHER, Story


def test_at_or_below_an_acknowledged_offset() -> None:
    story = Story()
    first = story.sent(1, 2, at=4, client="a")
    second = story.sent(3, at=5, client="b")
    assert story.finds("K14") == ["orders-0: 3 is at offset 5, but the end was 6 before it was sent"]
    assert late_offsets.check(story.history)[0].operations == (first, second)


def test_at_or_below_an_offset_that_was_read() -> None:
    story = Story()
    story.unknown(1, client="a")
    story.read((4, 1))
    story.sent(2, at=3, client="b")
    assert story.finds("K14") == ["orders-0: 2 is at offset 3, but the end was 5 before it was sent"]


@pytest.mark.parametrize("mark", Mark)
def test_below_a_mark(mark: Mark) -> None:
    story = Story()
    story.told(6, mark)
    story.sent(1, at=5)
    assert story.finds("K14") == ["orders-0: 1 is at offset 5, but the end was 6 before it was sent"]


def test_the_place_may_be_known_from_a_poll_alone() -> None:
    story = Story()
    story.sent(1, at=4)
    story.unknown(2, 3, client="b")
    story.read((2, 3), (4, 1))
    assert len(story.finds("K14")) == 1


def test_behind_everything_known() -> None:
    story = Story()
    story.sent(1, 2, at=4)
    story.told(6)
    story.read((4, 1), (5, 2))
    story.sent(3, at=6)
    assert story.finds("K14") == []


def test_sends_at_the_same_time_may_come_in_any_order() -> None:
    story = Story()
    late = story.begin(1, client="a")
    story.sent(2, at=5, client="b")
    story.read((5, 2))
    story.told(6)
    story.end(late, 4)
    assert story.finds("K14") == []


def test_what_one_broker_alone_acknowledged_may_be_overwritten() -> None:
    story = Story()
    story.sent(1, at=5, acks=1, idempotent=False)
    story.sent(2, at=5)
    assert story.finds("K14") == []


def test_a_leader_that_nobody_follows_may_acknowledge_low_offsets_for_itself() -> None:
    story = Story()
    story.sent(1, at=5)
    story.sent(2, at=3, acks=1, idempotent=False)
    assert story.finds("K14") == []


def test_other_partitions_have_their_own_offsets() -> None:
    story = Story()
    story.sent(1, at=5)
    story.sent(2, at=0, partition=OTHER)
    assert story.finds("K14") == []
