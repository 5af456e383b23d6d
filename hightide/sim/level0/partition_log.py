"""The log of a simulated replica: one record a batch, with a written and a synced end, and a hash of every prefix.

The epoch history is storage's own. A record is (leader epoch, producer, sequence), unique by the last two. By the
hashes of prefixes "do these two logs agree up to here" is a comparison of two numbers.
"""

from random import Random
from typing import cast

from hightide.rules import Rules
from hightide.storage.epochs import EpochHistory
from hightide.storage.files import Files
from hightide.types import NO_EPOCH, NO_OFFSET

Record = tuple[int, int, int]
NO_FILES = cast(Files, None)  # the history is never written: recovery rebuilds it from the records (R3)


class SyncPlan:
    """An fsync under way. `proves` is what it makes durable in truth: a truncation takes from it what it cuts."""

    __slots__ = ("end", "generation", "proves")

    def __init__(self, end: int, generation: int) -> None:
        self.end = self.proves = end
        self.generation = generation


class PartitionLog:
    """What is on one disk. It fits replication.log_view.LogView.

    Invariant: start ≤ end, synced_end ≤ end; `prefixes[i]` is the hash of records 0 … i. Records below `start` stay in
    `records`, since checks compare them; nobody reads them. `synced_end` is what the broker believes, `durable_end`
    what a power loss really leaves.
    """

    __slots__ = (
        "_plans", "_sequences", "durable_end", "end", "epochs", "generation", "prefixes", "records", "start",
        "synced_end", "topic_id",
    )  # fmt: skip

    def __init__(self, topic_id: bytes) -> None:
        self.topic_id = topic_id
        self.records: list[Record] = []
        self.prefixes: list[int] = []
        self.epochs = EpochHistory(NO_FILES, "")
        self.start = self.end = self.synced_end = self.durable_end = 0
        self._plans: list[SyncPlan] = []
        self.generation = 0
        """Counts truncations: a sync that began before one proves nothing after it (R19)."""
        self._sequences: dict[int, list[int]] = {}

    @property
    def tombstone_horizon(self) -> int:
        """Nothing is compacted here."""
        return -1

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record."""
        return self.records[-1][0] if self.end > self.start else NO_EPOCH

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """As the stored log answers."""
        if epoch > self.epochs.latest:
            return NO_EPOCH, NO_OFFSET
        return self.epochs.end_of(epoch, self.end)

    def prefix(self, end: int) -> int:
        """The hash of everything below `end`."""
        return self.prefixes[end - 1] if end else 0

    def has_prefix(self, end: int, prefix: int) -> bool:
        """Whether it holds exactly those records below `end`."""
        return self.end >= end and self.prefix(end) == prefix

    # ------------------------------------------------------------------ producers: their state is what the records say

    def last_sequence(self, producer: int) -> int:
        """The newest sequence of a producer; -1 for an unknown one."""
        offsets = self._sequences.get(producer)
        return self.records[offsets[-1]][2] if offsets else -1

    def offset_of(self, producer: int, sequence: int) -> int:
        """Where a record is; -1 where it is not."""
        for offset in reversed(self._sequences.get(producer, ())):
            if self.records[offset][2] == sequence:
                return offset
        return NO_OFFSET

    # ------------------------------------------------------------------ changes

    def append(self, record: Record) -> None:
        """Write behind the end."""
        epoch, producer, _ = record
        if epoch != self.epochs.latest:
            self.epochs.truncate_from_end(self.end)
            self.epochs.assign(epoch, self.end)
        self.prefixes.append(hash((self.prefixes[-1] if self.prefixes else 0, *record)))
        self.records.append(record)
        self._sequences.setdefault(producer, []).append(self.end)
        self.end += 1

    def truncate(self, offset: int) -> None:
        """Cut the end back."""
        self.generation += 1
        for _, producer, _ in self.records[offset:]:
            self._sequences[producer].pop()
        del self.records[offset:], self.prefixes[offset:]
        self.epochs.truncate_from_end(offset)
        self.end = len(self.records)
        self.start = min(self.start, self.end)
        self.synced_end = min(self.synced_end, self.end)
        self.durable_end = min(self.durable_end, self.end)
        for plan in self._plans:
            plan.proves = min(plan.proves, offset)

    def begin_sync(self) -> SyncPlan:
        """Sync what is written by now."""
        plan = SyncPlan(self.end, self.generation)
        self._plans.append(plan)
        return plan

    def end_sync(self, plan: SyncPlan, rules: Rules) -> None:
        """The fsync returned. R19: it proves nothing after a truncation."""
        self._plans.remove(plan)
        self.durable_end = max(self.durable_end, plan.proves)
        if plan.generation == self.generation or not rules.r19_void_sync_after_truncation:
            self.synced_end = max(self.synced_end, min(plan.end, self.end))

    def sync_all(self) -> None:
        """Everything is synced, and the caller waited for it."""
        self.synced_end = self.durable_end = self.end

    def restart(self, log: "PartitionLog", offset: int) -> None:
        """Begin anew at the start of another log; what is below that is as gone here as there."""
        self.generation += 1
        self.records = log.records[:offset]
        self.prefixes = log.prefixes[:offset]
        self._sequences = {}
        self.epochs.clear()
        self.start = self.end = self.synced_end = self.durable_end = offset
        self._plans.clear()

    def lose_power(self, random: Random, keeps: int | None = None) -> None:
        """Keep what was synced and the first so many records of the rest: recovery cuts at the first hole."""
        unsynced = self.end - self.durable_end
        self.truncate(self.durable_end + (random.randint(0, unsynced) if keeps is None else min(keeps, unsynced)))

    def reopen(self) -> None:
        """A process opens it again: the history is rebuilt from the records, and everything is synced before it counts
        (R3, R19)."""
        entries: dict[int, int] = {}
        for offset in range(self.start, self.end):
            entries.setdefault(self.records[offset][0], offset)
        self.epochs = EpochHistory(NO_FILES, "")
        for epoch, offset in entries.items():
            self.epochs.assign(epoch, offset)
        self.sync_all()
        self._plans.clear()
        self.generation += 1
