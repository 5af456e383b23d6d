"""Deadlines and end-of-turn calls, on a clock that moves by hand."""

from collections.abc import Callable

import pytest

from hightide.limits import REQUEST_WAIT_SECONDS_MAX
from hightide.node.waiting import SLOT_SECONDS, Deadlines, Turn


class Handle:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Time that passes only when told."""

    def __init__(self) -> None:
        self.time = 100.0
        self.wakes = 0
        self.pending: list[tuple[float, Callable[..., object], tuple[object, ...], Handle]] = []

    def now(self) -> float:
        return self.time

    def wall_ms(self) -> int:
        return int(self.time * 1000)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> Handle:
        handle = Handle()
        self.pending.append((self.time + seconds, callback, args, handle))
        return handle

    def call_soon(self, callback: Callable[..., object], *args: object) -> Handle:
        return self.call_later(0.0, callback, *args)

    def advance(self, seconds: float) -> None:
        self.time += seconds
        while due := [entry for entry in self.pending if entry[0] <= self.time]:
            for entry in due:
                self.pending.remove(entry)
                if not entry[3].cancelled:
                    self.wakes += 1
                    entry[1](*entry[2])


class Entry:
    def __init__(self, name: str, out: list[str]) -> None:
        self.name = name
        self.out = out

    def expired(self) -> None:
        self.out.append(self.name)


def test_entries_expire_in_order_and_not_early() -> None:
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)
    deadlines.add(Entry("late", out), 1.0)
    deadlines.add(Entry("soon", out), 0.5)
    clock.advance(0.5)
    assert out == []
    clock.advance(2 * SLOT_SECONDS)
    assert out == ["soon"]
    clock.advance(0.5)
    assert out == ["soon", "late"]


def test_a_removed_entry_never_expires() -> None:
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)
    entry = Entry("gone", out)
    slot = deadlines.add(entry, 0.1)
    deadlines.remove(entry, slot)
    deadlines.remove(entry, slot)
    clock.advance(1.0)
    assert out == []


def test_an_entry_may_add_another_while_it_expires() -> None:
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)

    class Again(Entry):
        def expired(self) -> None:
            super().expired()
            deadlines.add(Entry("second", out), 0.1)

    deadlines.add(Again("first", out), 0.1)
    clock.advance(0.2)
    clock.advance(0.2)
    assert out == ["first", "second"]


def test_a_bug_in_one_entry_keeps_no_other_waiting(caplog: pytest.LogCaptureFixture) -> None:
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)

    class Failing(Entry):
        def expired(self) -> None:
            raise RuntimeError("a bug")

    deadlines.add(Failing("first", out), 0.1)
    deadlines.add(Entry("second", out), 0.1)
    deadlines.add(Entry("third", out), 0.5)
    clock.advance(1.0)
    assert out == ["second", "third"]
    assert "a bug" in caplog.text


def test_closing_drops_everything() -> None:
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)
    deadlines.add(Entry("dropped", out), 0.1)
    deadlines.close()
    clock.advance(1.0)
    assert out == []


def test_a_turn_runs_each_call_once() -> None:
    clock, out = ManualClock(), list[str]()
    turn = Turn(clock)

    def call() -> None:
        out.append("called")

    turn.soon(call)
    turn.soon(call)
    clock.advance(0.0)
    assert out == ["called"]
    turn.soon(call)
    clock.advance(0.0)
    assert out == ["called", "called"]


def test_nobody_waits_longer_than_the_limit() -> None:
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)
    deadlines.add(Entry("patient", out), 24 * 3600.0)
    clock.advance(REQUEST_WAIT_SECONDS_MAX - 1)
    assert out == []
    clock.advance(2)
    assert out == ["patient"]


def test_nobody_is_woken_for_requests_that_were_answered() -> None:
    """A busy connection parks and answers hundreds of requests before the first of their deadlines."""
    clock, out = ManualClock(), list[str]()
    deadlines = Deadlines(clock)
    for number in range(400):
        entry = Entry(str(number), out)
        deadlines.remove(entry, deadlines.add(entry, 0.5))
        clock.advance(SLOT_SECONDS)
    deadlines.add(Entry("last", out), 0.5)
    assert clock.wakes <= 2 / 0.5, "once in as long as they would have waited, not once for each"
    clock.advance(1.0)
    assert out == ["last"]


def test_what_comes_after_the_answers_does_so_once() -> None:
    clock, done = ManualClock(), list[str]()
    turn = Turn(clock)

    def wake() -> None:
        done.append("consumers")

    turn.after_answers(wake)
    turn.after_answers(wake)
    clock.call_soon(done.append, "answers")
    clock.advance(0.0)
    assert done == ["answers", "consumers"]


def test_where_nothing_is_expected_it_comes_as_soon_as_the_answers_have_left() -> None:
    clock, done = ManualClock(), list[str]()
    turn = Turn(clock)

    def wake() -> None:
        done.append("consumers")

    turn.expects_no_more = True
    turn.after_answers(wake)
    turn.after_answers(wake)
    turn.expects_no_more = False
    clock.advance(0.0)
    assert not done
    turn.answers_left()
    turn.answers_left()
    assert done == ["consumers"]
