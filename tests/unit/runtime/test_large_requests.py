"""Memory that large requests share: whole or not at all, in turn, and not for those who stall."""

from collections.abc import Callable
from functools import partial

import pytest

from hightide.limits import STALLED_REQUEST_SECONDS
from hightide.runtime.large_requests import LOOK_SECONDS, LargeRequests


class FakeTimer:
    def cancel(self) -> None:
        raise AssertionError("nobody cancels a look")


class FakeClock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self._now = 0.0
        self._due: list[tuple[float, Callable[[], object]]] = []

    def now(self) -> float:
        return self._now

    def wall_ms(self) -> int:
        return int(self._now * 1000)

    def call_soon(self, callback: Callable[..., object], *args: object) -> object:
        return self.call_later(0.0, callback, *args)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> FakeTimer:
        self._due.append((self._now + seconds, partial(callback, *args)))
        return FakeTimer()

    def advance(self, seconds: float) -> None:
        """Let time pass in small steps."""
        end = self._now + seconds
        while self._now < end:
            self._now = min(end, self._now + LOOK_SECONDS / 2)
            due = [callback for at, callback in self._due if at <= self._now]
            self._due = [(at, callback) for at, callback in self._due if at > self._now]
            for callback in due:
                callback()


class FakeSender:
    def __init__(self) -> None:
        self.progress = 0
        self.was_woken = self.is_closed = False

    def receive_again(self) -> None:
        self.was_woken = True

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_who_does_not_fit_waits_until_something_is_given_back(clock: FakeClock) -> None:
    large = LargeRequests(clock, 100)
    first, second = FakeSender(), FakeSender()
    assert large.take(first, 60)
    assert not large.take(second, 60)
    assert large.held_bytes == 60
    large.give(first, 60)
    clock.advance(LOOK_SECONDS)
    assert second.was_woken
    assert large.take(second, 60)


def test_one_request_fits_however_large_it_is(clock: FakeClock) -> None:
    assert LargeRequests(clock, 100).take(FakeSender(), 1000)


def test_who_stalls_is_cut_off_while_others_wait(clock: FakeClock) -> None:
    large = LargeRequests(clock, 100)
    stalled, slow, paused = FakeSender(), FakeSender(), FakeSender()
    assert all([large.take(stalled, 30), large.take(slow, 30), large.take(paused, 30)])
    clock.advance(3 * STALLED_REQUEST_SECONDS)
    assert not stalled.is_closed, "nobody wants its memory"
    assert not large.take(FakeSender(), 60)
    paused.progress = -1
    for _ in range(int(STALLED_REQUEST_SECONDS) + 1):
        slow.progress += 1
        clock.advance(1.0)
    assert [stalled.is_closed, slow.is_closed, paused.is_closed] == [True, False, False]


def test_who_is_gone_is_not_woken(clock: FakeClock) -> None:
    large = LargeRequests(clock, 100)
    first, gone = FakeSender(), FakeSender()
    large.take(first, 100)
    large.take(gone, 100)
    large.forget(gone)
    large.give(first, 100)
    clock.advance(LOOK_SECONDS)
    assert not gone.was_woken
