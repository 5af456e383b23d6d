"""Real time: the highest number that was known before an operation began."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class KnownBefore(Generic[T]):
    """Facts (the moment since when it is known, a number, who proves it), asked for the highest before a moment."""

    __slots__ = ("_highest", "_moments")

    def __init__(self, facts: Iterable[tuple[int, int, T]]) -> None:
        self._moments: list[int] = []
        self._highest: list[tuple[int, T]] = []
        for moment, number, proof in sorted(facts, key=lambda fact: fact[0]):
            if not self._highest or number > self._highest[-1][0]:
                self._moments.append(moment)
                self._highest.append((number, proof))

    def at(self, moment: int) -> tuple[int, T] | None:
        index = bisect_left(self._moments, moment)
        return self._highest[index - 1] if index else None
