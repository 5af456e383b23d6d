"""Virtual time: a heap of things to do, one random stream per subsystem, and a trace that is hashed.

The laws of every simulation on it: nothing happens but by the heap, in the order of (time, sequence); every random
number comes from a named stream; the trace takes numbers only, since the hashes of text differ from process to process.
So the same seed gives the same hash, and a failing seed can be run again with its timeline kept.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

TIMELINE_LINES_MAX = 20_000  # the end of a failing run tells the story; a longer one is shrunk first


class InvariantError(AssertionError):
    """Something that must never be was. `name` is the invariant's: I1, I2, …"""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


class Trace:
    """The history of a run: a hash of everything, and the last lines for people when they are wanted."""

    __slots__ = ("_hash", "_lines", "keeps_lines")

    def __init__(self, *, keeps_lines: bool = False) -> None:
        self._hash = 0
        self._lines: deque[str] = deque(maxlen=TIMELINE_LINES_MAX)
        self.keeps_lines = keeps_lines

    def note(self, *facts: float) -> None:
        """Take something that happened into the hash. Numbers only."""
        self._hash = hash((self._hash, *facts))

    def say(self, now: float, text: str) -> None:
        """A line of the timeline; callers build the text only if `keeps_lines`."""
        self._lines.append(f"{now:12.6f}  {text}")

    @property
    def digest(self) -> str:
        """The hash as text."""
        return f"{self._hash & 0xFFFF_FFFF_FFFF_FFFF:016x}"

    @property
    def timeline(self) -> list[str]:
        """The last lines."""
        return list(self._lines)


class Kernel:
    """The clock and the heap. `now` is true time, in seconds; what a node's clock shows is the node's matter."""

    __slots__ = ("_heap", "_sequence", "events", "now", "seed", "trace")

    def __init__(self, seed: int, *, keeps_timeline: bool = False) -> None:
        self.seed = seed
        self.now = 0.0
        self.events = 0
        self.trace = Trace(keeps_lines=keeps_timeline)
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def stream(self, name: str) -> Random:
        """The random numbers of one subsystem: a change in another does not shift them."""
        return Random(f"{self.seed}:{name}")

    def at(self, when: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do something at a time; never in the past."""
        self._sequence += 1
        now = self.now
        heappush(self._heap, (when if when > now else now, self._sequence, action, arguments))

    def after(self, delay: float, action: Callable[..., None], *arguments: Any) -> None:
        """Do something later. There is no cancelling: an action asks whether it is still wanted."""
        self._sequence += 1
        heappush(self._heap, (self.now + delay, self._sequence, action, arguments))

    def run(self, until: float) -> None:
        """Let everything happen that happens up to a time."""
        heap, pop = self._heap, heappop
        events = 0
        try:
            while heap and heap[0][0] <= until:
                self.now, _, action, arguments = pop(heap)
                events += 1
                action(*arguments)
        finally:
            self.events += events
        self.now = max(self.now, until)

    def step(self) -> bool:
        """Let the next thing happen; False when there is none."""
        if not self._heap:
            return False
        self.now, _, action, arguments = heappop(self._heap)
        self.events += 1
        action(*arguments)
        return True
