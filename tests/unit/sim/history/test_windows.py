"""K19: unavailability and lag, as clients saw them. One moment is one second here."""

from hightide.sim.history.windows import Lag, Unavailable, measure
from tests.unit.sim.history.stories import OTHER, P, Story


def test_from_the_first_send_that_waits_to_the_next_acknowledgement() -> None:
    story = Story()
    story.sent(1, at=0)  # at 1 and 2 s
    story.now = 10
    waiting = story.begin(2)
    story.unknown(3)
    story.history.failed(story.begin(4))
    story.now = 20
    story.end(waiting, 1)
    measured = measure(story.history, longer_than_seconds=1.5)
    assert measured.unavailable == [Unavailable(P, 11.0, 21.0, served=True)]
    assert measured.longest_unavailable_seconds == 10.0
    assert str(measured.unavailable[0]) == "orders-0 unavailable for 10.000 s from 11.000 s"


def test_quiet_times_are_not_unavailable() -> None:
    story = Story()
    story.sent(1, at=0)
    story.now = 100
    story.sent(2, at=1)
    assert measure(story.history, longer_than_seconds=1.0).unavailable == []


def test_with_sends_in_flight_the_next_window_starts_at_the_acknowledgement() -> None:
    story = Story()
    first, second = story.begin(1), story.begin(2)
    story.end(first, 0)
    story.now = 9
    story.end(second, 1)
    assert measure(story.history, longer_than_seconds=0.0).unavailable == [
        Unavailable(P, 1.0, 3.0, served=True),
        Unavailable(P, 3.0, 10.0, served=True),
    ]


def test_what_is_never_acknowledged_lasts_to_the_end() -> None:
    story = Story()
    story.sent(1, at=0, partition=OTHER)
    story.begin(2)
    story.now = 8
    story.history.moment()
    (window,) = measure(story.history, longer_than_seconds=1.0).unavailable
    assert window == Unavailable(P, 3.0, 9.0, served=False)
    assert str(window) == "orders-0 unavailable for 6.000 s from 3.000 s and to the end"


def test_the_worst_lag_of_a_reader() -> None:
    story = Story()
    story.sent(1, at=0)
    story.read((0, 1))
    story.sent(2, at=1)  # acknowledged at 6 s
    story.sent(3, at=2)
    story.now = 20
    story.read()  # begins at 21 s
    story.read((1, 2), (2, 3))
    measured = measure(story.history)
    assert measured.lags == [Lag("consumer", P, 21.0, 15.0)]
    assert measured.worst_lag_seconds == 15.0
    assert str(measured.lags[0]) == "consumer at most 15.000 s behind in orders-0, at 21.000 s"


def test_a_reader_that_is_up_to_date_has_no_lag() -> None:
    story = Story()
    story.sent(1, at=0)
    story.now = 50
    story.read((0, 1))
    story.read()
    assert [lag.seconds for lag in measure(story.history).lags] == [0.0]


def test_lag_follows_the_position_and_ends_with_the_assignment() -> None:
    story = Story()
    story.sent(1, at=0)  # acknowledged at 2 s
    story.goes(0)
    story.read()  # begins at 4 s, nothing yet
    story.goes(None)
    story.now = 90
    story.read()
    assert [lag.seconds for lag in measure(story.history).lags] == [2.0]


def test_the_final_read_is_late_on_purpose() -> None:
    story = Story()
    story.sent(1, at=0)
    story.sent(2, at=1)
    story.now = 90
    story.final((0, 1))
    assert measure(story.history).lags == []


def test_an_empty_history_cost_nothing() -> None:
    measured = measure(Story().history)
    assert (measured.longest_unavailable_seconds, measured.worst_lag_seconds, str(measured)) == (0.0, 0.0, "")
