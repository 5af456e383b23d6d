"""What a partition remembers of each idempotent or transactional producer, so that a batch is appended once (R11).

Per producer id: its epoch, its last five batches, and where its open transaction began. `check` decides before the
append and changes nothing, `apply` records after it; recovery and truncation load a snapshot and `apply` what the log
holds beyond. The answers are Kafka's: an older producer epoch is fenced, a new epoch starts at sequence 0, a gap is out
of order, one of the last five batches again is a duplicate, and an unknown producer may begin anywhere (its older
batches may have been deleted by retention, so its first sequence proves nothing; UNKNOWN_PRODUCER_ID is history).
A snapshot has all five too: a producer may send the first of those under way again after a roll and a restart. The file
format is in `producer_snapshots`.
"""

from heapq import nlargest
from typing import TYPE_CHECKING, Final, NamedTuple

from hightide.errors import ApiError, CorruptionError, ErrorCode
from hightide.limits import PRODUCER_BATCHES_KEPT, PRODUCERS_PER_PARTITION_MAX, SNAPSHOT_PRODUCERS_IN_FULL
from hightide.storage.producer_snapshots import (
    SnapshotEntry,
    list_snapshots,
    read_snapshot,
    snapshot_path,
    write_snapshot,
)
from hightide.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP

if TYPE_CHECKING:
    from hightide.storage.files import Files
    from hightide.wire.records import BatchHeader

_new_tuple: Final = tuple.__new__
_SEQUENCE_MASK: Final = 0x7FFFFFFF  # sequences are int32 and wrap from the largest to 0
_SEQUENCES_HALF: Final = 1 << 30  # a sequence that far ahead is behind
_NO_SEQUENCE: Final = -1
_TRANSACTIONAL_BIT: Final = 0x10
_EVICTED_AT_ONCE: Final = 100  # of a full table, a hundredth goes at a time: a flood of new ids costs O(log n) each


class Duplicate(NamedTuple):
    """A batch that is in the log already, where it is, and its timestamp there."""

    base_offset: int
    last_offset: int
    timestamp: int


class CompletedTransaction(NamedTuple):
    """A transaction that a marker just ended; an aborted one goes into the transaction index."""

    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class KeptBatch(NamedTuple):
    """One of the last batches of a producer. Both sequences and `last_offset` are inclusive."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int


_NO_BATCH: Final = KeptBatch(_NO_SEQUENCE, _NO_SEQUENCE, NO_OFFSET, 0, NO_TIMESTAMP)


class ProducerState:
    """One producer. Invariant: `next_sequence` follows the newest batch, or is 0 in an epoch without one."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp",
        "next_sequence",
        "producer_id",
        "seen_ms",
        "transaction_start",
    )

    def __init__(self, producer_id: int, epoch: int, seen_ms: int) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[KeptBatch] = []  # oldest first, at most PRODUCER_BATCHES_KEPT
        self.next_sequence = 0
        self.coordinator_epoch = NO_EPOCH  # of the last transaction marker
        self.last_timestamp = NO_TIMESTAMP  # of the last batch or marker, as DescribeProducers reports it
        self.transaction_start = NO_OFFSET  # first offset of the open transaction
        self.seen_ms = seen_ms  # by our clock: record timestamps are the client's, so expiry can't trust them alone

    def enter(self, epoch: int) -> None:
        """Another epoch: its sequences begin at 0 and older batches can't be repeated."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
            self.next_sequence = 0

    def keep(
        self, first_sequence: int, last_sequence: int, last_offset: int, offset_delta: int, timestamp: int
    ) -> None:
        """Remember the newest batch, forget the sixth."""
        batches = self.batches
        if len(batches) >= PRODUCER_BATCHES_KEPT:
            del batches[0]
        # Not through the constructor, which costs as much as all the rest of an append's bookkeeping.
        batches.append(_new_tuple(KeptBatch, (first_sequence, last_sequence, last_offset, offset_delta, timestamp)))
        self.next_sequence = (last_sequence + 1) & _SEQUENCE_MASK
        self.last_timestamp = timestamp

    def find(self, first_sequence: int, last_sequence: int) -> Duplicate | None:
        """The kept batch with exactly these sequences."""
        for batch in self.batches:
            if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                return Duplicate(batch.last_offset - batch.offset_delta, batch.last_offset, batch.timestamp)
        return None


class ProducerStates:
    """All producers of one partition, and its open transactions."""

    __slots__ = ("_directory", "_files", "_now_ms", "_open", "_states", "_undecided_markers", "producers_max")

    def __init__(self, files: "Files", directory: str, producers_max: int = PRODUCERS_PER_PARTITION_MAX) -> None:
        self._files = files
        self._directory = directory
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}  # producer id -> first offset of its open transaction
        self._undecided_markers: list[tuple[int, int]] = []  # (first offset, marker offset) not yet below the HW
        self._now_ms = 0
        self.producers_max = producers_max

    def __len__(self) -> int:
        return len(self._states)

    def __bool__(self) -> bool:
        return bool(self._states)

    def get(self, producer_id: int) -> ProducerState | None:
        """What is known of a producer."""
        return self._states.get(producer_id)

    @property
    def active(self) -> list[ProducerState]:
        """All known producers by id, for DescribeProducers."""
        return [self._states[producer_id] for producer_id in sorted(self._states)]

    @property
    def identifiers(self) -> list[int]:
        """The ids of all known producers."""
        return list(self._states)

    def last_batch(self, producer_id: int) -> tuple[int, int] | None:
        """Where a producer's last batch ends (-1 when its epoch has none), and its epoch: what compaction must keep."""
        state = self._states.get(producer_id)
        if state is None:
            return None
        return (state.batches[-1].last_offset if state.batches else NO_OFFSET), state.epoch

    # Before the append.

    def check(self, header: "BatchHeader", now_ms: int) -> Duplicate | None:
        """Whether a client's batch with a producer id may be appended; the earlier append when it is a duplicate.

        Raises ApiError(INVALID_PRODUCER_EPOCH, OUT_OF_ORDER_SEQUENCE_NUMBER or INVALID_TXN_STATE). Changes nothing
        but the time of the last sign of life. The caller skips batches without a producer id.
        """
        self._now_ms = now_ms
        state = self._states.get(header.producer_id)
        if state is None:
            if len(self._open) >= self.producers_max:
                raise ApiError(
                    ErrorCode.INVALID_TXN_STATE, f"{len(self._open)} producers have an open transaction here"
                )
            return None
        state.seen_ms = now_ms
        if header.producer_epoch == state.epoch:
            if header.base_sequence != state.next_sequence:
                duplicate = state.find(header.base_sequence, _last_sequence(header))
                if duplicate is not None:
                    return duplicate
                raise ApiError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {state.producer_id} sent sequence {header.base_sequence}, not {state.next_sequence}",
                )
        elif header.producer_epoch < state.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {state.producer_id} has epoch {state.epoch}, the batch has {header.producer_epoch}",
            )
        elif header.base_sequence != 0:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {state.producer_id} began epoch {header.producer_epoch} at sequence {header.base_sequence}",
            )
        if state.transaction_start != NO_OFFSET and not header.attributes & _TRANSACTIONAL_BIT:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {state.producer_id} has an open transaction and sent a batch outside of it",
            )
        return None

    def last_before_gap(self, header: "BatchHeader") -> int | None:
        """Where the log of a producer ends that skipped sequences with this batch; None when it did not."""
        state = self._states.get(header.producer_id)
        if state is None or not state.batches or state.epoch != header.producer_epoch:
            return None
        skipped = (header.base_sequence - state.next_sequence) & _SEQUENCE_MASK
        return state.batches[-1].last_offset if 0 < skipped < _SEQUENCES_HALF else None

    # After the append, and while a log is replayed.

    def apply(self, header: "BatchHeader", base_offset: int, timestamp: int) -> None:
        """A data batch with a producer id is in the log at `base_offset`; `timestamp` is its max timestamp there."""
        state = self._states.get(header.producer_id)
        if state is None:
            state = self._add(header.producer_id, header.producer_epoch)
        elif header.producer_epoch != state.epoch:
            state.enter(header.producer_epoch)
        delta = header.last_offset_delta
        first = header.base_sequence
        state.keep(first, (first + delta) & _SEQUENCE_MASK, base_offset + delta, delta, timestamp)
        if header.attributes & _TRANSACTIONAL_BIT and state.transaction_start == NO_OFFSET:
            state.transaction_start = base_offset
            self._open[header.producer_id] = base_offset

    def apply_marker(
        self,
        header: "BatchHeader",
        offset: int,
        timestamp: int,
        *,
        coordinator_epoch: int,
        aborted: bool,
    ) -> CompletedTransaction | None:
        """A commit or abort marker is in the log at `offset`. None when it ended a transaction without data here."""
        producer_id = header.producer_id
        state = self._states.get(producer_id)
        if state is None:
            state = self._add(producer_id, header.producer_epoch)
        state.enter(header.producer_epoch)
        state.coordinator_epoch = coordinator_epoch
        state.last_timestamp = timestamp
        state.transaction_start = NO_OFFSET
        first_offset = self._open.pop(producer_id, None)
        if first_offset is None:
            return None
        self._undecided_markers.append((first_offset, offset))
        return CompletedTransaction(producer_id, first_offset, offset, aborted)

    def _add(self, producer_id: int, epoch: int) -> ProducerState:
        if len(self._states) >= self.producers_max:
            self._evict()
        state = self._states[producer_id] = ProducerState(producer_id, epoch, self._now_ms)
        return state

    def _evict(self) -> None:
        """Make room by what expiry would take next: the longest unseen producers without an open transaction.

        When all have one, the table grows: what a leader admitted (`check`) its followers and its recovery must hold.
        """
        idle = [state for state in self._states.values() if state.transaction_start == NO_OFFSET]
        idle.sort(key=lambda state: (state.seen_ms, state.last_timestamp, state.producer_id))
        for state in idle[: max(1, len(self._states) // _EVICTED_AT_ONCE)]:
            del self._states[state.producer_id]

    # Transactions.

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the first transaction begins that is open, or whose marker is not below the high watermark (KIP-98)."""
        if self._undecided_markers:
            self._undecided_markers = [entry for entry in self._undecided_markers if entry[1] >= high_watermark]
        elif not self._open:
            return None
        starts = [first for first, _ in self._undecided_markers]
        starts.extend(self._open.values())
        return min(starts) if starts else None

    @property
    def first_undecided_offset(self) -> int | None:
        """Where the oldest open transaction begins, whatever is replicated: an index entry's last stable offset."""
        return min(self._open.values()) if self._open else None

    # Time.

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers unseen for `producer.id.expiration.ms`, unless a transaction is open; returns how many."""
        self._now_ms = now_ms
        deadline = now_ms - expiration_ms
        expired = [
            state.producer_id
            for state in self._states.values()
            if state.transaction_start == NO_OFFSET and state.seen_ms <= deadline and state.last_timestamp <= deadline
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    # Snapshots.

    def snapshot(self, offset: int, *, sync: bool = False) -> None:
        """Write `<offset>.snapshot`: the state after everything below `offset` was applied.

        Without `sync` a power loss may leave it missing or torn, which its CRC shows; then an older one and a longer
        replay take its place.
        """
        entries: list[SnapshotEntry] = []
        full_from = self._oldest_in_full()
        for state in self.active:
            batches = state.batches
            if len(batches) > 1 and batches[-1].last_offset >= full_from:
                entries += [_to_entry(state, batch) for batch in batches[:-1]]
            entries.append(_to_entry(state, batches[-1] if batches else _NO_BATCH))
        write_snapshot(self._files, snapshot_path(self._directory, offset), entries, sync=sync)

    def _oldest_in_full(self) -> int:
        """From which offset on a producer's last batch is so young that its older ones may still be sent again."""
        if len(self._states) <= SNAPSHOT_PRODUCERS_IN_FULL:
            return NO_OFFSET
        newest = (state.batches[-1].last_offset for state in self._states.values() if state.batches)
        return min(nlargest(SNAPSHOT_PRODUCERS_IN_FULL, newest), default=NO_OFFSET)

    def load_latest(self, log_start: int, log_end: int, now_ms: int) -> int:
        """Become the newest readable snapshot at or below `log_end`; returns from where batches must be applied again.

        For the start and for truncation alike: snapshots above `log_end` describe a log that no longer is, unreadable
        ones nothing; both are removed (the caller syncs the directory). A snapshot below `log_start` still counts: its
        batches are gone, its sequences are not.
        """
        self._forget(now_ms)
        for offset in reversed(list_snapshots(self._files, self._directory)):
            path = snapshot_path(self._directory, offset)
            if offset <= log_end:
                try:
                    self._load(read_snapshot(self._files, path))
                    return max(offset, log_start)
                except CorruptionError:
                    self._forget(now_ms)
            self._files.remove(path)
        return log_start

    def snapshots(self) -> list[int]:
        """The offsets of the snapshots on disk, rising."""
        return list_snapshots(self._files, self._directory)

    def remove_snapshots_below(self, offset: int) -> None:
        """Retention moved the first segment to `offset`: older snapshots go, but never the newest of all."""
        for old in list_snapshots(self._files, self._directory)[:-1]:
            if old < offset:
                self._files.remove(snapshot_path(self._directory, old))

    def remove_snapshots_between(self, start: int, end: int) -> None:
        """Segments were merged: snapshots inside the new one go, but never the newest of all."""
        for offset in list_snapshots(self._files, self._directory)[:-1]:
            if start < offset < end:
                self._files.remove(snapshot_path(self._directory, offset))

    def reset(self) -> None:
        """Forget everything and remove all snapshots: the log was dropped."""
        self._forget(self._now_ms)
        for offset in list_snapshots(self._files, self._directory):
            self._files.remove(snapshot_path(self._directory, offset))

    def _forget(self, now_ms: int) -> None:
        self._states.clear()
        self._open.clear()
        self._undecided_markers.clear()
        self._now_ms = now_ms

    def _load(self, entries: list[SnapshotEntry]) -> None:
        for entry in entries:
            state = self._states.get(entry.producer_id)
            if state is None:
                state = self._add(entry.producer_id, entry.epoch)
            state.enter(entry.epoch)
            if entry.last_offset != NO_OFFSET:
                first = (entry.last_sequence - entry.offset_delta) & _SEQUENCE_MASK
                state.keep(first, entry.last_sequence, entry.last_offset, entry.offset_delta, entry.timestamp)
            state.last_timestamp = entry.timestamp
            state.coordinator_epoch = entry.coordinator_epoch
            state.transaction_start = entry.transaction_start
            if entry.transaction_start != NO_OFFSET:
                self._open[entry.producer_id] = entry.transaction_start


def _last_sequence(header: "BatchHeader") -> int:
    return (header.base_sequence + header.last_offset_delta) & _SEQUENCE_MASK


def _to_entry(state: ProducerState, batch: KeptBatch) -> SnapshotEntry:
    is_newest = batch is _NO_BATCH or batch is state.batches[-1]
    return SnapshotEntry(
        producer_id=state.producer_id,
        epoch=state.epoch,
        last_sequence=batch.last_sequence,
        last_offset=batch.last_offset,
        offset_delta=batch.offset_delta,
        timestamp=state.last_timestamp if is_newest else batch.timestamp,
        coordinator_epoch=state.coordinator_epoch,
        transaction_start=state.transaction_start,
    )
