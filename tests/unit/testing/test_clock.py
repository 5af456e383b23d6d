"""The brokers' clock: timers come due when time jumps, in order, each once."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from hightide.testing.clock import BrokersClock, NodeClock

HOUR = 3600.0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A loop in a thread of its own, as a node has it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def clock_on(loop: asyncio.AbstractEventLoop, shared: BrokersClock) -> NodeClock:
    clock = NodeClock(loop, shared)
    shared.join(clock)
    return clock


def test_timers_come_due_in_order_when_time_jumps(loop: asyncio.AbstractEventLoop) -> None:
    shared = BrokersClock()
    clock = clock_on(loop, shared)
    called: list[str] = []
    scheduled, done = threading.Event(), threading.Event()

    def schedule() -> None:
        clock.call_later(2 * HOUR, called.append, "second")
        clock.call_later(HOUR, called.append, "first")
        clock.call_later(2.5 * HOUR, called.append, "cancelled").cancel()
        clock.call_later(3 * HOUR, done.set)
        clock.call_later(9 * HOUR, called.append, "later")
        scheduled.set()

    before = clock.now(), clock.wall_ms()
    loop.call_soon_threadsafe(schedule)
    assert scheduled.wait(10)
    shared.advance(4 * HOUR)
    assert done.wait(10)
    assert called == ["first", "second"]
    assert clock.now() - before[0] >= 4 * HOUR
    assert clock.wall_ms() - before[1] >= 4 * HOUR * 1000


def test_a_frozen_node_notices_later(loop: asyncio.AbstractEventLoop) -> None:
    shared = BrokersClock()
    clock = clock_on(loop, shared)
    clock.is_frozen = True
    shared.advance(HOUR)
    assert shared.offset == HOUR


def test_a_node_that_ended_is_not_waited_for() -> None:
    shared = BrokersClock()
    loop = asyncio.new_event_loop()
    clock = clock_on(loop, shared)
    loop.close()
    shared.advance(HOUR)
    shared.leave(clock)
    assert clock.notice().done()
