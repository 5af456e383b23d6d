"""K7 and K8: a poll skips or goes back."""

import pytest

from hightide.sim.history import poll_order
from hightide.sim.history.operations import Mark, Polled
from tests.unit.sim.history.stories import OTHER, P, Story


def told(values: int = 6) -> Story:
    """A story in which that many values were acknowledged at the offset of their number."""
    story = Story()
    for value in range(values):
        story.sent(value, at=value)
    return story


def test_a_poll_skips() -> None:
    story = told()
    poll = story.read((0, 0), (3, 3))
    found = ["orders-0 read by consumer: goes from offset 0 to 3 and skips 1 at 1, 2 at 2"]
    assert story.finds("K7") == found
    assert story.finds("K8") == []
    assert poll_order.check_within(story.history)[0].operations == (poll,)


def test_many_skipped_values_are_counted() -> None:
    story = told(10)
    story.read((0, 0), (9, 9))
    assert story.finds("K7")[0].endswith("skips 1 at 1, 2 at 2, 3 at 3, 4 at 4, 5 at 5 and 3 more")


@pytest.mark.parametrize("back", [0, 1, 2])
def test_a_poll_goes_back(back: int) -> None:
    story = told()
    story.read((1, 1), (2, 2), (back, back))
    assert story.finds("K7") == [f"orders-0 read by consumer: goes back from offset 2 to {back}"]


def test_the_next_poll_skips() -> None:
    story = told()
    first = story.read((0, 0))
    second = story.read((2, 2))
    assert story.finds("K8") == ["orders-0 read by consumer: goes from offset 0 to 2 and skips 1 at 1"]
    assert story.finds("K7") == []
    assert poll_order.check_across(story.history)[0].operations == (first, second)


@pytest.mark.parametrize("back", [0, 1])
def test_the_next_poll_goes_back(back: int) -> None:
    story = told()
    story.read((0, 0), (1, 1))
    story.read()
    story.read((back, back))
    assert story.finds("K8") == [f"orders-0 read by consumer: goes back from offset 1 to {back}"]


def test_gaps_where_no_value_is_known_are_legal() -> None:
    story = Story()
    story.sent(1, at=0)
    story.sent(2, at=5)
    story.unknown(3)
    story.sent(4, at=3, acks=1, idempotent=False)
    story.read((0, 1), (5, 2))
    story.read((9, 3))
    assert story.finds("K7") == story.finds("K8") == []


def test_a_gap_is_a_skip_as_soon_as_anybody_read_something_there() -> None:
    story = Story()
    story.sent(1, at=0)
    story.unknown(2)
    story.sent(3, at=2)
    story.read((0, 1), (2, 3), client="a")
    story.read((1, 2), client="b")
    assert len(story.finds("K7")) == 1


def test_partitions_and_clients_are_followed_apart() -> None:
    story = told()
    story.sent(7, at=9, partition=OTHER)
    story.read((0, 0), (1, 1), client="a")
    story.read((0, 0), client="b")
    story.read((9, 7), client="a", partition=OTHER)
    story.read((2, 2), client="a")
    assert story.finds("K7") == story.finds("K8") == []


@pytest.mark.parametrize("position", [None, 0, 4])
def test_after_a_rebalance_everything_starts_anew(position: int | None) -> None:
    story = told()
    story.read((0, 0), (1, 1), (2, 2))
    story.goes(position)
    start = position or 0
    story.read((start, start))
    assert story.finds("K8") == []


def test_a_position_is_kept() -> None:
    story = told()
    story.goes(2)
    story.read((4, 4))
    story.goes(2)
    story.read((1, 1))
    assert story.finds("K8") == [
        "orders-0 read by consumer: goes from offset 1 to 4 and skips 2 at 2, 3 at 3",
        "orders-0 read by consumer: goes back from offset 1 to 1",
    ]


def test_a_rebalance_of_another_partition_excuses_nothing() -> None:
    story = told()
    story.read((0, 0))
    story.goes(None, partition=OTHER)
    story.read((0, 0))
    assert len(story.finds("K8")) == 1


def test_a_rebalance_during_a_poll_frees_that_poll_only() -> None:
    story = told()
    story.read((0, 0), (1, 1))
    poll = story.history.begin_poll("consumer")
    story.goes(4)
    story.history.polled(poll, [Polled(P, 2, 2), Polled(P, 4, 4)])
    story.read((5, 5))
    assert story.finds("K7") == story.finds("K8") == []
    story.read((5, 5))
    assert len(story.finds("K8")) == 1


def test_after_a_failed_poll_nobody_knows_the_position() -> None:
    story = told()
    story.read((0, 0))
    story.history.failed(story.history.begin_poll("consumer"), "disconnected")
    story.read((4, 4))
    assert story.finds("K8") == []


def test_retention_may_remove_what_comes_next() -> None:
    story = told()
    story.read((0, 0))
    story.told(3, Mark.LOG_START)
    story.read((3, 3))
    assert story.finds("K8") == []
    story.read((5, 5))
    assert story.finds("K8") == ["orders-0 read by consumer: goes from offset 3 to 5 and skips 4 at 4"]
