"""When a coordinator must act by itself: one heap for all groups, whose entries are looked at again when they are due.

An entry is not moved when its deadline is: a heartbeat costs no heap operation. Whoever pops it compares the number
with the one that counts, and puts a later deadline back.
"""

from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple


class Kind(IntEnum):
    """What an entry is about."""

    SESSION = 0
    PENDING = 1
    JOIN = 2
    SYNC = 3


class Due(NamedTuple):
    """One entry."""

    at: float
    number: int
    kind: Kind
    group_id: str
    member_id: str


class Timers:
    """The heap. Numbers name entries: one that nobody remembers any more is void."""

    def __init__(self) -> None:
        self._heap: list[Due] = []
        self._last = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, at: float, kind: Kind, group_id: str, member_id: str = "") -> int:
        """A new entry's number."""
        self._last += 1
        heappush(self._heap, Due(at, self._last, kind, group_id, member_id))
        return self._last

    @property
    def next_at(self) -> float | None:
        """When to look again; maybe for nothing."""
        return self._heap[0].at if self._heap else None

    def pop(self, now: float) -> Due | None:
        """The next entry that is due."""
        return heappop(self._heap) if self._heap and self._heap[0].at <= now else None
