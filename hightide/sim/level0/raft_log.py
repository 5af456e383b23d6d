"""The log of a simulated quorum member: batches as objects, with a written and a synced end."""

from bisect import bisect_right
from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from hightide.types import NO_EPOCH, NO_OFFSET

LEADER_CHANGE = -1


class Batch(NamedTuple):
    """Offsets [base, end) written by the leader of `epoch`; every value is used once, a leader change has none."""

    base: int
    end: int
    epoch: int
    value: int


class SimulatedLog:
    """What is on one disk. It fits replication.snapshots.QuorumLog.

    Invariant: start ≤ synced_end ≤ end. `generation` counts truncations, which void a sync under way (R19).
    """

    __slots__ = (
        "_bases",
        "_epoch_starts",
        "_epochs",
        "batches",
        "end",
        "generation",
        "last_epoch",
        "start",
        "synced_end",
    )  # fmt: skip

    def __init__(self) -> None:
        self.start = 0
        self.end = 0
        self.synced_end = 0
        self.last_epoch = NO_EPOCH
        self.generation = 0
        self.batches: list[Batch] = []
        self._bases: list[int] = []
        self._epochs: list[int] = []
        self._epoch_starts: list[int] = []

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """As the stored log's: KIP-101, and (-1, -1) for an epoch it never heard of."""
        if epoch > self.last_epoch:
            return NO_EPOCH, NO_OFFSET
        if epoch == self.last_epoch:
            return epoch, self.end
        after = bisect_right(self._epochs, epoch)
        return (self._epochs[after - 1] if after else epoch), self._epoch_starts[after]

    def is_boundary(self, offset: int) -> bool:
        """Whether a batch begins here, or the log ends."""
        if offset == self.end:
            return True
        index = bisect_right(self._bases, offset) - 1
        return index >= 0 and self._bases[index] == offset

    def read(self, offset: int, count: int) -> list[Batch]:
        """Batches from the one that holds `offset` on."""
        if offset >= self.end:
            return []
        index = max(0, bisect_right(self._bases, offset) - 1)
        return self.batches[index : index + count]

    def between(self, start: int, end: int) -> list[Batch]:
        """The batches that hold offsets of [start, end)."""
        first = max(0, bisect_right(self._bases, start) - 1)
        return self.batches[first : bisect_right(self._bases, end - 1)]

    # ------------------------------------------------------------------ changes

    def append(self, batches: Sequence[Batch]) -> None:
        """Write behind the end."""
        for batch in batches:
            self.batches.append(batch)
            self._bases.append(batch.base)
            if batch.epoch != self.last_epoch:
                self.last_epoch = batch.epoch
                self._epochs.append(batch.epoch)
                self._epoch_starts.append(batch.base)
            self.end = batch.end

    def truncate(self, offset: int) -> None:
        """Cut the end back; a batch that holds `offset` goes whole."""
        self.generation += 1
        while self.batches and self.batches[-1].end > offset:
            self.batches.pop()
            self._bases.pop()
        self.end = self.batches[-1].end if self.batches else self.start
        self.synced_end = min(self.synced_end, self.end)
        while self._epoch_starts and self._epoch_starts[-1] >= self.end:
            self._epoch_starts.pop()
            self._epochs.pop()
        self.last_epoch = self._epochs[-1] if self._epochs else NO_EPOCH

    def advance_start(self, offset: int) -> None:
        """Forget what a snapshot holds."""
        self.start = offset
        gone = bisect_right(self._bases, offset) - 1
        if gone >= 0 and self.batches[gone].end <= offset:
            gone += 1
        if gone > 0:
            del self.batches[:gone], self._bases[:gone]
        keep = bisect_right(self._epoch_starts, offset) - 1
        if keep > 0:
            del self._epochs[:keep], self._epoch_starts[:keep]
        if not self.batches:
            self._epochs.clear()
            self._epoch_starts.clear()
            self.last_epoch = NO_EPOCH

    def restart_at(self, offset: int) -> None:
        """Begin anew on a snapshot."""
        self.generation += 1
        self.batches.clear()
        self._bases.clear()
        self._epochs.clear()
        self._epoch_starts.clear()
        self.last_epoch = NO_EPOCH
        self.start = self.end = self.synced_end = offset

    def lose_power(self, random: Random) -> None:
        """Keep what was synced, and of the rest the first so many batches: recovery cuts at the first hole."""
        unsynced = [batch for batch in reversed(self.batches) if batch.base >= self.synced_end]
        if unsynced:
            lost = random.randint(0, len(unsynced))
            if lost:
                self.truncate(unsynced[lost - 1].base)

    def lose_synced(self, random: Random) -> None:
        """A hole below the synced end, behind which batches are still readable: the doubtful disk of R17."""
        if self.batches:
            lost = random.randint(1, min(3, len(self.batches)))
            self.truncate(self.batches[-lost].base)
