"""Requests that wait: for a commit, for data, or for time to run out.

No task and no timer per request: a parked request is an entry in a wheel of coarse slots, all served by one timer, and
in the lists of the partitions it waits for. Its number is bounded because a connection that has parked a request is
not read further (`node.sessions`).
"""

from collections.abc import Callable
from heapq import heappop, heappush
from logging import getLogger
from typing import Final, Protocol

from hightide.limits import REQUEST_WAIT_SECONDS_MAX
from hightide.node.ports import Clock, Timer

log = getLogger("hightide.waiting")

SLOT_SECONDS: Final = 0.005


class Expiring(Protocol):
    """Something with a deadline."""

    def expired(self) -> None:
        """Its time is up; it is out of the wheel already."""


class Deadlines:
    """A wheel of deadlines rounded up to `SLOT_SECONDS`: adding and removing cost one dictionary operation."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._slots: dict[int, dict[Expiring, None]] = {}
        self._order: list[int] = []
        self._timer: Timer | None = None
        self._timer_slot = 0

    def add(self, entry: Expiring, seconds: float) -> int:
        """Call `entry.expired()` after `seconds` or the most that anybody may wait, unless it is removed before.

        Returns the slot of its deadline, which `remove` wants to know.
        """
        slot = int((self._clock.now() + min(seconds, REQUEST_WAIT_SECONDS_MAX)) / SLOT_SECONDS) + 1
        members = self._slots.get(slot)
        if members is not None:
            members[entry] = None
            return slot
        self._slots[slot] = {entry: None}
        heappush(self._order, slot)
        if self._timer is None or slot < self._timer_slot:
            self._arm()
        return slot

    def remove(self, entry: Expiring, slot: int) -> None:
        """Forget it. Idempotent."""
        members = self._slots.get(slot)
        if members is not None:
            members.pop(entry, None)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._order and not self._slots[self._order[0]]:
            del self._slots[heappop(self._order)]  # everybody in it was answered: nothing to wake up for
        if self._order:
            self._timer_slot = self._order[0]
            delay = max(0.0, self._timer_slot * SLOT_SECONDS - self._clock.now())
            self._timer = self._clock.call_later(delay, self._tick)

    def _tick(self) -> None:
        self._timer = None
        now = int(self._clock.now() / SLOT_SECONDS)
        while self._order and self._order[0] <= now:
            for entry in self._slots.pop(heappop(self._order)):
                try:
                    entry.expired()
                except Exception:  # a bug in one must not keep the others of its slot waiting for ever
                    log.exception("a request whose time was up failed")
        self._arm()

    def close(self) -> None:
        """Stop the timer; whoever still waits is dropped with its connection."""
        if self._timer is not None:
            self._timer.cancel()
        self._slots.clear()
        self._order.clear()


class Turn:
    """Runs each given callable once at the end of the present turn of the loop, however often it was asked for.

    Wakes long polls after a burst of appends instead of after each of them. What is asked for with `after_answers`
    comes one turn later: the answers of this turn have left by then, no producer waits while consumers are served, and
    what the next turn brings goes with it. `expects_no_more` where few requests came and their answers leave at once:
    nothing is worth waiting for, and whoever sends the answers says when they have left.
    """

    def __init__(self, clock: Clock) -> None:
        self.expects_no_more = False
        self._clock = clock
        self._due: dict[Callable[[], None], None] = {}
        self._due_later: dict[Callable[[], None], None] = {}
        self._due_at_once: dict[Callable[[], None], None] = {}

    def soon(self, callback: Callable[[], None]) -> None:
        """Ask for one call."""
        if not self._due:
            self._clock.call_soon(self._run)
        self._due[callback] = None

    def _run(self) -> None:
        due, self._due = self._due, {}
        for callback in due:
            callback()

    def after_answers(self, callback: Callable[[], None]) -> None:
        """Ask for one call in the next turn, or as soon as the answers have left."""
        if self.expects_no_more:
            self._due_at_once[callback] = None
            return
        if not self._due_later:
            self._clock.call_soon(self._pass_on)
        self._due_later[callback] = None

    def _pass_on(self) -> None:
        due, self._due_later = self._due_later, {}
        for callback in due:
            self.soon(callback)

    def answers_left(self) -> None:
        """The answers of this turn have left."""
        if self._due_at_once:
            due, self._due_at_once = self._due_at_once, {}
            for callback in due:
                callback()
