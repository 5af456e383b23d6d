"""K15: marks go back."""

import pytest

from hightide.sim.history import marks
from hightide.sim.history.operations import Mark
from tests.unit.sim.history.stories import OTHER, P, Story

FETCHED = [Mark.HIGH_WATERMARK, Mark.LAST_STABLE_OFFSET]
LISTED = [Mark.LATEST, Mark.LATEST_STABLE]


@pytest.mark.parametrize("mark", FETCHED + LISTED)
def test_back_within_a_leader_epoch(mark: Mark) -> None:
    story = Story()
    story.told(8, mark, client="a", epoch=3)
    story.told(9, mark, client="a", epoch=3)
    story.told(7, mark, client="b", epoch=3)
    assert story.finds("K15") == [f"orders-0: {mark} went back from 9 to 7"]
    assert marks.check(story.history)[0].operations == tuple(story.history.observations[1:])


@pytest.mark.parametrize("mark", LISTED)
def test_list_offsets_back_for_one_client(mark: Mark) -> None:
    story = Story()
    story.told(8, mark, epoch=3)
    story.told(7, mark, epoch=4)
    assert story.finds("K15") == [f"orders-0: {mark} went back from 8 to 7"]


def test_two_reasons_make_one_finding() -> None:
    story = Story()
    story.told(8, epoch=3)
    story.told(7, epoch=3)
    assert len(story.finds("K15")) == 1


@pytest.mark.parametrize("mark", FETCHED)
def test_a_new_leader_learns_the_high_watermark_anew(mark: Mark) -> None:
    story = Story()
    story.told(8, mark, epoch=3)
    story.told(7, mark, epoch=4)
    story.told(6, mark)
    assert story.finds("K15") == []


def test_a_cut_off_leader_may_tell_others_old_numbers() -> None:
    story = Story()
    story.told(8, client="a", epoch=4)
    story.told(7, client="b", epoch=3)
    story.told(6, client="c")
    assert story.finds("K15") == []


def test_answers_on_their_way_at_the_same_time_have_no_order() -> None:
    story = Story()
    asked = story.history.moment()
    story.told(8, epoch=3)
    story.history.observed("admin", P, Mark.LATEST, 7, asked=asked, leader_epoch=3)
    assert story.finds("K15") == []


def test_equal_and_other_marks_and_partitions_are_legal() -> None:
    story = Story()
    story.told(8, epoch=3)
    story.told(8, epoch=3)
    story.told(5, Mark.LATEST_STABLE, epoch=3)
    story.told(4, epoch=3, partition=OTHER)
    story.told(3, Mark.LOG_START, epoch=3)
    story.told(2, Mark.LOG_START, epoch=3)
    assert story.finds("K15") == []
