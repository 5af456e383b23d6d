"""What a leader has to look at for a follower's next answer: the partitions with news, not all that it follows.

A broker leads hundreds of partitions, its followers ask for all of them with every Fetch, and few were written to since
the last one. So partitions tell: an append, a moved high watermark, another role. What is unusual stays on the list
until it is usual again: an error, records that had no room in the answer, a replica out of sync. And everything is
looked at every `FULL_LOOK_SECONDS`, which credits idle partitions with the follower's presence (C20).
"""

from collections.abc import Callable
from typing import Protocol

FULL_LOOK_SECONDS = 0.5  # as long as a follower's request waits where nothing happens

Key = tuple[str | bytes, int]


class Watched(Protocol):
    """A partition, as far as news know it."""

    watchers: "dict[FollowerNews, Key]"


class FollowerNews:
    """`keys`: the partitions to look at, the oldest news first. `wake` is called when records came."""

    __slots__ = ("_looked_at", "_watched", "keys", "wake")

    def __init__(self) -> None:
        self.keys: dict[Key, None] = {}
        self.wake: Callable[[], None] | None = None
        self._watched: dict[Key, Watched] = {}
        self._looked_at = float("-inf")

    def is_full_look_due(self, now: float) -> bool:
        """Whether everything is to be looked at; then it is, from now on."""
        if now - self._looked_at < FULL_LOOK_SECONDS:
            return False
        self._looked_at = now
        return True

    def watch(self, key: Key, partition: Watched) -> None:
        """Be told what happens to this partition, and no more what happened to another one in its place."""
        former = self._watched.get(key)
        if former is not partition:
            if former is not None:
                former.watchers.pop(self, None)
            self._watched[key] = partition
            partition.watchers[self] = key

    def appended(self, key: Key) -> None:
        """There is something to send."""
        self.keys[key] = None
        if self.wake is not None:
            self.wake()

    def forget(self, key: Key) -> None:
        """Watch it no more. Idempotent."""
        self.keys.pop(key, None)
        partition = self._watched.pop(key, None)
        if partition is not None:
            partition.watchers.pop(self, None)

    def close(self) -> None:
        """Watch nothing any more. Idempotent."""
        self.wake = None
        for key in list(self._watched):
            self.forget(key)
