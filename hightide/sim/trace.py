"""What happened in a run: a hash of everything, a timeline for people, and the problems that were found.

The hash takes text and numbers that are the same in every interpreter: no addresses, no hashes of text, no set orders.
The timeline keeps what a person wants to read: processes, faults, leaders, watermarks, warnings; bounded, newest last.
"""

from collections import deque
from hashlib import blake2b
from typing import NamedTuple

from hightide.sim.scheduler import Scheduler

TIMELINE_LINES_MAX = 5_000  # a failing run is shrunk until its story is shorter than that
PROBLEMS_MAX = 100  # the first ones tell; a broken invariant may be seen at every step after


class Problem(NamedTuple):
    """Something that must not be. `check` is its name: I1, K4, liveness, …"""

    check: str
    text: str
    at: float

    def __str__(self) -> str:
        return f"{self.check} at {self.at:.3f} s: {self.text}"


class Trace:
    """The record of one run. `follow` is for people who look for the first difference between two runs."""

    def __init__(self, scheduler: Scheduler, *, follow: bool = False) -> None:
        self.problems: list[Problem] = []
        self.events: list[str] | None = [] if follow else None
        self._scheduler = scheduler
        self._hash = blake2b(digest_size=8)
        self._lines: deque[str] = deque(maxlen=TIMELINE_LINES_MAX)

    def note(self, what: str, number: int = 0) -> None:
        """Take an event into the hash."""
        line = f"{self._scheduler.now!r} {what} {number}\n"
        self._hash.update(line.encode())
        if self.events is not None:
            self.events.append(line)

    def say(self, who: str, text: str) -> None:
        """A line of the timeline; part of the hash too."""
        self.note(f"{who} {text}")
        self._lines.append(f"{self._scheduler.now:10.4f}  {who:<12} {text}")

    def report(self, check: str, text: str) -> None:
        """Something is wrong."""
        if len(self.problems) < PROBLEMS_MAX:
            problem = Problem(check, text, self._scheduler.now)
            self.problems.append(problem)
            self.say("PROBLEM", f"{check}: {text.partition(chr(10))[0]}")

    @property
    def digest(self) -> str:
        """The hash so far, with the order in which callbacks ran."""
        return f"{self._hash.hexdigest()}{self._scheduler.order_hash:016x}"

    @property
    def timeline(self) -> list[str]:
        """The lines for people."""
        return list(self._lines)
