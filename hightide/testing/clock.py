"""The clock of the brokers in this process: real time, and what the test added to it.

Only brokers read it. Clients, the proxy and processes of their own live in real time.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock

ADVANCE_SECONDS_MAX = 10.0  # how long the brokers get to notice


class BrokersClock:
    """`cluster.clock`: moves the time of all brokers at once."""

    def __init__(self) -> None:
        self.offset = 0.0
        """Seconds that the brokers are ahead of real time."""
        self._clocks: set[NodeClock] = set()
        self._lock = Lock()

    def advance(self, seconds: float) -> None:
        """Let time jump ahead, both clocks of every broker; whatever falls due is due when this returns.

        As on a machine that slept: sessions, leases and elections that time out in between do so.
        """
        if seconds < 0:
            raise ValueError(f"time can't go back ({seconds} s)")
        with self._lock:
            self.offset += seconds
            noticed = [clock.notice() for clock in self._clocks if not clock.is_frozen]
        for each in noticed:
            each.result(ADVANCE_SECONDS_MAX)

    def join(self, clock: "NodeClock") -> None:
        """A node was started."""
        with self._lock:
            self._clocks.add(clock)

    def leave(self, clock: "NodeClock") -> None:
        """It ended."""
        with self._lock:
            self._clocks.discard(clock)


class NodeClock:
    """`node.ports.Clock` of one life of a node."""

    def __init__(self, loop: asyncio.AbstractEventLoop, shared: BrokersClock) -> None:
        self.loop = loop
        self.call_soon = loop.call_soon
        self.is_frozen = False
        self._shared = shared
        self._timers: set[ShiftedTimer] = set()

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic() + self._shared.offset

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000 + int(self._shared.offset * 1000)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> "ShiftedTimer":
        """Call back on the loop, sooner if time jumps."""
        timer = ShiftedTimer(self, self.now() + seconds, callback, args)
        self._timers.add(timer)
        timer.arm()
        return timer

    def forget(self, timer: "ShiftedTimer") -> None:
        """It was called or cancelled."""
        self._timers.discard(timer)

    def notice(self) -> "Future[None]":
        """Time jumped: done when every timer knows. From any thread."""
        noticed: Future[None] = Future()

        def look() -> None:
            for timer in sorted(self._timers, key=lambda timer: timer.deadline):
                timer.arm()
            noticed.set_result(None)

        try:
            self.loop.call_soon_threadsafe(look)
        except RuntimeError:  # it has just ended
            noticed.set_result(None)
        return noticed


class ShiftedTimer:
    """`node.ports.Timer`: due when the broker's clock says so."""

    __slots__ = ("_args", "_callback", "_clock", "_handle", "deadline")

    def __init__(
        self, clock: NodeClock, deadline: float, callback: Callable[..., object], args: tuple[object, ...]
    ) -> None:
        self.deadline = deadline
        self._clock = clock
        self._callback = callback
        self._args = args
        self._handle: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        """Wait as long as it is from now."""
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._clock.loop.call_later(max(0.0, self.deadline - self._clock.now()), self._fire)

    def cancel(self) -> None:
        """Never call it. Idempotent."""
        if self._handle is not None:
            self._handle.cancel()
        self._clock.forget(self)

    def _fire(self) -> None:
        self._clock.forget(self)
        self._callback(*self._args)
