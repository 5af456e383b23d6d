"""K12: values that nobody sent, changed ones, and ones from the future."""

from hightide.sim.history import provenance
from hightide.sim.history.operations import Polled
from tests.unit.sim.history.stories import OTHER, P, Story


def test_a_value_that_nobody_sent() -> None:
    story = Story()
    poll = story.read((0, b"phantom"))
    story.read((0, b"phantom"), client="b")
    assert story.finds("K12") == ["orders-0 offset 0: b'phantom' was read and nobody sent it there"]
    assert provenance.check(story.history)[0].operations == (poll,)


def test_a_changed_value_names_the_original() -> None:
    story = Story()
    send = story.sent(b"value", at=3)
    poll = story.read((3, b"walue"))
    assert story.finds("K12") == [
        "orders-0 offset 3: b'walue' was read and nobody sent it there; b'value' was acknowledged"
    ]
    assert provenance.check(story.history)[0].operations == (send, poll)


def test_a_value_of_another_partition() -> None:
    story = Story()
    story.sent(1, at=0, partition=OTHER)
    story.read((0, 1))
    assert story.finds("K12") == ["orders-0 offset 0: 1 was read and nobody sent it there, but to orders-1"]


def test_a_value_read_before_it_was_sent() -> None:
    story = Story()
    story.read((0, 1))
    story.sent(1, at=0)
    assert story.finds("K12") == ["orders-0 offset 0: 1 was read before it was sent"]


def test_whatever_was_tried_may_be_read() -> None:
    story = Story()
    story.sent(1, at=0)
    story.unknown(2)
    story.history.failed(story.begin(3))
    poll = story.history.begin_poll("consumer")
    story.begin(4)
    story.history.polled(poll, [Polled(P, offset, offset + 1) for offset in range(4)])
    assert story.finds("K12") == []
