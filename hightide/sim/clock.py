"""Clocks that go wrong: wall clocks step, both kinds drift and freeze, no two machines agree on anything.

`MachineTime` is the hardware, one per machine, and outlives processes; the monotonic clock begins somewhere else at
every boot. `SimulatedClock` is `node.ports.Clock` for one process on it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide.sim.loop import SimulatedHandle, SimulatedLoop
    from hightide.sim.scheduler import Scheduler

WALL_START_MS = 1_750_000_000_000  # some day in June 2025: no timestamp of a test is older or younger by accident
FROZEN_POLL_SECONDS = 0.05  # a timer on a clock that stands still is looked at again this often


class MachineTime:
    """The clocks of one machine, as functions of true time."""

    def __init__(self, scheduler: "Scheduler", boot_seconds: float = 0.0, wall_skew_ms: int = 0) -> None:
        self.was_tampered_with = False
        self._scheduler = scheduler
        self._rate = 1.0
        self._anchor = scheduler.now
        self._elapsed = boot_seconds
        self._wall_offset_ms = WALL_START_MS + wall_skew_ms + scheduler.now * 1000 - boot_seconds * 1000

    def monotonic(self) -> float:
        """Seconds since some moment; never back."""
        return self._elapsed + (self._scheduler.now - self._anchor) * self._rate

    def wall_ms(self) -> int:
        """Milliseconds since 1970, as this machine believes."""
        return int(self._wall_offset_ms + self.monotonic() * 1000)

    def true_seconds(self, seconds: float) -> float:
        """How long it takes until this clock has moved that far."""
        return seconds / self._rate if self._rate else FROZEN_POLL_SECONDS

    # Faults.

    def step(self, milliseconds: int) -> None:
        """The wall clock jumps; the monotonic one never does."""
        self._wall_offset_ms += milliseconds

    def drift(self, rate: float) -> None:
        """Both clocks run at this rate from now on; 0 is a frozen clock, 1 a good one."""
        self._elapsed = self.monotonic()
        self._anchor = self._scheduler.now
        self._rate = rate
        self.was_tampered_with = True

    def reboot(self, boot_seconds: float) -> None:
        """Another monotonic clock; the wall clock has a battery."""
        wall = self._wall_offset_ms + self.monotonic() * 1000
        self._elapsed = boot_seconds
        self._anchor = self._scheduler.now
        self._wall_offset_ms = wall - boot_seconds * 1000


class SimulatedClock:
    """`node.ports.Clock` of one process."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop
        self.now = loop.machine_time.monotonic
        self.wall_ms = loop.machine_time.wall_ms
        self.call_soon = loop.call_soon

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> "SimulatedHandle":
        """Call back on the process's loop."""
        return self._loop.call_later(seconds, callback, *args)
