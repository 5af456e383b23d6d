"""The recorder: moments, ends, and what it refuses."""

import threading

import pytest

from hightide.sim.history.operations import OPEN, Outcome, Polled
from hightide.sim.history.recorder import History
from tests.unit.sim.history.stories import OTHER, P, Story


def test_moments_rise_while_the_clock_stands() -> None:
    history = History(lambda: 7.0)
    first = history.begin_send("a", P, 1)
    poll = history.begin_poll("b")
    history.acknowledged(first, 4)
    history.polled(poll, [Polled(P, 4, 1)])
    assert first.begun < poll.begun < first.ended < poll.ended
    assert (first.begun_at, first.ended_at, first.offset, first.outcome) == (7.0, 7.0, 4, Outcome.OK)
    assert poll.records == [Polled(P, 4, 1)]


def test_what_never_ends_is_unknown() -> None:
    story = Story()
    send = story.begin(1)
    assert (send.outcome, send.ended) == (Outcome.UNKNOWN, OPEN)
    assert not send.is_durable


def test_a_late_acknowledgement_counts() -> None:
    story = Story()
    send = story.unknown(1)
    story.end(send, 3)
    assert send.is_durable
    assert send.reason == ""


@pytest.mark.parametrize("values", [(), (1, 1), (3, 2)])
def test_values_must_be_new_in_their_partition(values: tuple[int, ...]) -> None:
    story = Story()
    story.unknown(2)
    story.sent(2, partition=OTHER)
    with pytest.raises(ValueError, match="must be new in orders-0"):
        story.begin(*values)
    story.begin(1, 3)


def test_threads_share_a_history() -> None:
    history = History(lambda: 0.0)

    def work(number: int) -> None:
        for index in range(200):
            send = history.begin_send(f"producer-{number}", P, number * 1000 + index)
            history.acknowledged(send, index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    moments = sorted(moment for send in history.sends for moment in (send.begun, send.ended))
    assert moments == list(range(1, 1601))
    assert [send.begun for send in history.sends] == sorted(send.begun for send in history.sends)


def test_operations_tell_themselves_in_one_line() -> None:
    story = Story()
    send = story.sent(b"a", b"b" * 60, at=5)
    poll = story.read((5, b"a"))
    story.history.failed(story.begin(1, 2, 3, 4, 5, 6), "too large")
    story.goes(4)
    story.goes(None)
    story.told(9, epoch=2)
    story.final()
    story.history.begin_final_read("again", [P, OTHER])
    assert str(send) == (
        f"#1-2 1.000-2.000 s producer sends b'a', {b'b' * 40!r}... (60 bytes) to orders-0: ok at offset 5"
    )
    assert str(poll) == "#3-4 3.000-4.000 s consumer polls: ok, 1 of orders-0, offsets 5 to 5"
    assert str(story.history.sends[1]) == (
        "#5-6 5.000-6.000 s producer sends 1, 2, 3, 4, 5, ... to orders-0: fail (too large)"
    )
    assert list(map(str, story.history.positions)) == [
        "#7 7.000 s consumer goes to orders-0 at 4",
        "#8 8.000 s consumer goes to orders-0",
    ]
    assert str(story.history.observations[0]) == (
        "#9-10 10.000 s admin is told latest offset 9 of orders-0 in leader epoch 2"
    )
    assert str(story.history.polls[-1]).endswith("final polls: ok, no records")
    assert str(story.history.final_reads[0]) == (
        "#11-14 11.000-14.000 s final reads everything of orders-0: reached the end"
    )
    assert str(story.history.final_reads[1]) == (
        "#15 15.000 s again reads everything of orders-0, orders-1: never reached the end"
    )
