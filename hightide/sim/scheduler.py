"""The heart of level 1: virtual time, and one callback after another.

Every simulated process has an event loop of its own (`sim.loop`), and all of them share this scheduler. Laws:

- Nothing happens but by a callback; time passes only when none is ready, straight to the next timer.
- Timers are keyed (deadline, sequence). Among ready callbacks a seeded stream chooses: with the chance `disorder` any
  of them, else the one that has waited longest. At 0 the order is asyncio's own, first come first served.
- A process that is paused keeps its callbacks until it goes on; those of a dead one never run.
- The garbage collector runs at counted steps only, so that no finaliser depends on what else the interpreter did.
"""

import asyncio
import gc
from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

from hightide.sim.disk import SimulatedCrash

if TYPE_CHECKING:
    from hightide.sim.loop import SimulatedHandle, SimulatedLoop

CALLBACKS_PER_INSTANT_MAX = 200_000  # more without time passing is a loop that never ends
STEPS_PER_COLLECTION = 200_000  # some 20 ms of collecting in a second or two of running
_HASH_FACTOR = 1_000_003
_HASH_MASK = (1 << 64) - 1


class LivelockError(Exception):
    """Callbacks schedule callbacks, and time stands still."""


class NothingHappensError(Exception):
    """Somebody waits, and nothing is left that could wake them."""


class Scheduler:
    """Virtual time in seconds (`now`), the ready callbacks and the timers of all processes."""

    def __init__(self, choices: Random, disorder: float = 0.0) -> None:
        self.now = 0.0
        self.steps = 0
        self.current: SimulatedLoop | None = None
        """Whose callback runs."""
        self.order_hash = 0
        """Which callbacks ran, in which order."""
        self._disorder = disorder
        self._draw = choices.random
        self._ready: deque[SimulatedHandle] = deque()
        self._timers: list[tuple[float, int, SimulatedHandle]] = []
        self.sequence = 0
        """The number of callbacks made so far: each has its own."""
        self._afterwards: list[Callable[[], None]] = []
        self._is_stopping = False

    # ------------------------------------------------------------------ for loops

    def soon(self, handle: "SimulatedHandle") -> None:
        """Run it at this instant."""
        self._ready.append(handle)

    def at(self, deadline: float, handle: "SimulatedHandle") -> None:
        """Run it at that time."""
        heappush(self._timers, (deadline, handle.sequence, handle))

    def afterwards(self, action: Callable[[], None]) -> None:
        """Do this right after the running callback, or now when none runs."""
        if self.current is None:
            action()
        else:
            self._afterwards.append(action)

    def stop(self) -> None:
        """Let `run` return after the running callback."""
        self._is_stopping = True

    # ------------------------------------------------------------------ running

    def run(self, until: float | None = None) -> None:
        """Let things happen up to a time, or without a time until `stop`."""
        was_collecting = gc.isenabled()
        gc.disable()
        self._is_stopping = False
        try:
            while not self._is_stopping:
                if self._ready:
                    self._run_ready()
                elif not self._advance(until):
                    return
        finally:
            self.current = None
            asyncio._set_running_loop(None)
            if was_collecting:
                gc.enable()

    def _advance(self, until: float | None) -> bool:
        """Go on to the next timer; False when the time is up."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        if not timers and until is None:
            raise NothingHappensError(f"nothing happens any more at {self.now:.3f} s")
        if not timers or (until is not None and timers[0][0] > until):
            assert until is not None
            self.now = max(self.now, until)
            return False
        self.now = now = max(self.now, timers[0][0])
        while timers and timers[0][0] <= now:
            handle = heappop(timers)[2]
            if handle.is_due():
                self._ready.append(handle)
        return True

    def _run_ready(self) -> None:
        """Run everything that is ready at this instant, and what becomes ready by that. The hottest loop there is."""
        ready, draw, disorder = self._ready, self._draw, self._disorder
        limit = self.steps + CALLBACKS_PER_INSTANT_MAX
        while ready and not self._is_stopping:
            if disorder and len(ready) > 1 and draw() < disorder:
                index = int(draw() * len(ready))
                handle = ready[index]
                del ready[index]
            else:
                handle = ready.popleft()
            loop = handle.loop
            if handle._cancelled or loop.is_dead:
                continue
            if loop.is_paused:
                loop.held.append(handle)
                continue
            self.order_hash = (self.order_hash * _HASH_FACTOR + handle.sequence) & _HASH_MASK
            if loop is not self.current:
                self.current = loop
                asyncio._set_running_loop(loop)
            try:
                if handle._context is None:
                    handle._callback(*handle._args)
                else:
                    handle._context.run(handle._callback, *handle._args)
            except SimulatedCrash:
                pass  # the process is dead, and `afterwards` says what follows
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                loop.call_exception_handler({"message": f"an exception in {handle.describe()}", "exception": error})
            self.steps += 1
            if self._afterwards:
                self._do_afterwards()
            if self.steps % STEPS_PER_COLLECTION == 0:
                gc.collect()
            if self.steps >= limit:
                raise LivelockError(f"no end of callbacks at {self.now:.6f} s, the last one {handle.describe()}")

    def _do_afterwards(self) -> None:
        actions, self._afterwards = self._afterwards, []
        self.current = None
        asyncio._set_running_loop(None)
        for action in actions:
            action()
