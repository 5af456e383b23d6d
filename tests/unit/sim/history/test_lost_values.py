"""K4: acknowledged, and gone after the final read."""

from hightide.sim.history import lost_values
from hightide.sim.history.operations import Mark
from tests.unit.sim.history.stories import OTHER, P, Story


def test_an_acknowledged_value_is_gone() -> None:
    story = Story()
    story.sent(1, at=0)
    lost = story.sent(2, at=1)
    story.final((0, 1))
    assert story.finds("K4") == ["orders-0: 2 was acknowledged at offset 1 and is gone"]
    assert lost_values.check(story.history)[0].operations == (lost, story.history.final_reads[0])


def test_acknowledged_without_an_offset_and_gone() -> None:
    story = Story()
    story.sent(1)
    story.final()
    assert story.finds("K4") == ["orders-0: 1 was acknowledged and is gone"]


def test_what_was_read_once_must_stay() -> None:
    story = Story()
    story.unknown(1)
    poll = story.read((0, 1))
    story.read((0, 1), client="b")
    story.final()
    assert story.finds("K4") == ["orders-0: 1 was read at offset 0 and is gone"]
    assert lost_values.check(story.history)[0].operations[0] is poll


def test_acknowledged_and_read_and_gone_is_one_finding() -> None:
    story = Story()
    story.sent(1, at=0)
    story.read((0, 1))
    story.final()
    assert story.finds("K4") == ["orders-0: 1 was acknowledged at offset 0 and is gone"]


def test_a_complete_final_read_finds_everything() -> None:
    story = Story()
    story.sent(1, 2, at=0)
    story.unknown(3)
    story.history.failed(story.begin(4))
    story.sent(5, acks=1, at=3, idempotent=False)
    story.final((0, 1), (1, 2), (2, 3))
    assert story.finds("K4") == []


def test_retention_may_remove_what_was_acknowledged() -> None:
    story = Story()
    story.sent(1, at=0)
    story.sent(2)
    story.sent(3, at=2)
    story.told(2, Mark.LOG_START)
    story.final((2, 3))
    assert story.finds("K4") == []


def test_an_acknowledgement_without_a_final_read_is_not_proven() -> None:
    story = Story()
    story.sent(1, 2, at=0)
    story.sent(3, at=0, partition=OTHER)
    story.final((0, 1), (1, 2))
    assert story.finds("K4") == ["orders-1: no complete final read follows the acknowledgement of 1 values"]


def test_a_final_read_that_never_reached_the_end_proves_nothing() -> None:
    story = Story()
    story.sent(1, at=0)
    story.history.begin_final_read("final", [P])
    story.read((0, 1), client="final")
    assert story.finds("K4") == ["orders-0: no complete final read follows the acknowledgement of 1 values"]


def test_a_final_read_says_nothing_of_what_is_acknowledged_after_it_began() -> None:
    story = Story()
    late = story.begin(1)
    read = story.history.begin_final_read("final", [P])
    story.end(late, 0)
    story.history.caught_up(read)
    assert story.finds("K4") == ["orders-0: no complete final read follows the acknowledgement of 1 values"]


def test_without_acknowledgements_there_is_nothing_to_prove() -> None:
    story = Story()
    story.unknown(1)
    assert story.finds("K4") == []
