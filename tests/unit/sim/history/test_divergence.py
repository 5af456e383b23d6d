"""K1: two values at one offset."""

import pytest

from hightide.sim.history import divergence
from tests.unit.sim.history.stories import OTHER, P, Story


def test_an_acknowledged_and_a_read_value_differ() -> None:
    story = Story()
    sent = story.sent(1, at=5)
    story.begin(2)
    poll = story.read((5, 2))
    assert story.finds("K1") == ["orders-0 offset 5: 2 values at one offset: 1, 2"]
    assert divergence.check(story.history)[0].operations == (sent, poll)


def test_two_readers_differ() -> None:
    story = Story()
    story.begin(1)
    story.begin(2)
    story.read((5, 1), client="a")
    story.read((5, 2), client="b")
    story.read((5, 1), client="c")
    assert story.finds("K1") == ["orders-0 offset 5: 2 values at one offset: 1, 2"]


def test_two_acknowledgements_for_one_offset() -> None:
    story = Story()
    story.sent(1, 2, at=4, client="a")
    story.sent(3, at=5, client="b")
    assert story.finds("K1") == ["orders-0 offset 5: 2 values at one offset: 2, 3"]


@pytest.mark.parametrize("acks", [0, 1])
def test_an_acknowledgement_without_all_replicas_proves_no_place(acks: int) -> None:
    story = Story()
    story.sent(1, at=5, acks=acks, idempotent=False)
    story.sent(2, at=5)
    story.read((5, 2))
    assert story.finds("K1") == []


def test_the_same_offset_of_another_partition_is_another_place() -> None:
    story = Story()
    story.sent(1, at=5, partition=P)
    story.sent(1, at=5, partition=OTHER)
    story.read((5, 1), partition=OTHER)
    assert story.finds("K1") == []
