"""Opening the files of a log: find out what is there, believe only what was synced or proves itself, repair the rest.

1. A segment with a fitting seal that lies below the recovery point (or any, after a clean stop) is believed as it is.
2. From the first other segment on everything is scanned: length, CRC, order of offsets and epochs. That rebuilds the
   indexes, the producers and the epoch history on the way.
3. At the first bad batch: below what was once synced it is corruption, reported and left alone (R17). Above, it is the
   torn tail of a crash, and cut; if valid batches lie behind it, the log is doubtful.
4. A compaction that a crash interrupted is finished or forgotten first (`swaps`).
5. What lies above the recorded synced end is rewritten in place and synced before it counts (R19).

Every step may be interrupted and done again (I30): segments go from the end, and nothing is cut that was not bad.
"""

from collections.abc import Callable
from contextlib import suppress
from errno import EDQUOT, EMFILE, ENFILE, ENOSPC
from functools import partial
from itertools import pairwise
from struct import Struct

from hightide.errors import CorruptionError, ProtocolError, ShortLogError
from hightide.limits import RECOVERY_SCAN_BYTES, ROOM_FROM_BYTES
from hightide.rules import Rules
from hightide.storage.epochs import EpochHistory
from hightide.storage.files import File, Files
from hightide.storage.producers import ProducerStates
from hightide.storage.scanning import BadBatchError, Chain, StoredBatch, has_valid_batch, verified_from
from hightide.storage.segment import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    DERIVED_SUFFIXES,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    Segment,
)
from hightide.storage.settings import NEVER_COMPACTED, LogSettings, OpenFacts
from hightide.storage.swaps import finish_swaps
from hightide.storage.transaction_index import AbortedTransaction, TransactionIndex
from hightide.types import NO_EPOCH
from hightide.wire.records import ControlType, control_type_of, iterate_records

_MARKER = Struct(">hi")  # version and coordinator epoch, the value of an EndTxnMarker
_NAME_DIGITS = 20
FULL_DISK = (ENOSPC, EDQUOT)
NO_DESCRIPTORS = (EMFILE, ENFILE)


class RecoveredLog:
    """What recovery hands to the log: at least one segment, everything synced.

    `is_fresh`: there is nothing in it, and its names last with its first records.
    """

    __slots__ = ("doubtful", "epochs", "is_fresh", "producers", "scanned_bytes", "segments")

    def __init__(self, segments: list[Segment], epochs: EpochHistory, producers: ProducerStates) -> None:
        self.segments = segments
        self.epochs = epochs
        self.producers = producers
        self.doubtful = self.is_fresh = False
        self.scanned_bytes = 0


def apply_batch(batch: StoredBatch, producers: ProducerStates, transactions: TransactionIndex) -> None:
    """What a batch in the log means to producers and transactions."""
    header = batch.header
    if header.producer_id < 0:
        return
    if not header.is_control:
        producers.apply(header, header.base_offset, header.max_timestamp)
        return
    try:
        record = next(iterate_records(batch.buffer, batch.at, header), None)
        kind = control_type_of(record.key) if record is not None else None
    except ProtocolError as error:
        raise CorruptionError(f"the control batch at offset {header.base_offset} is malformed: {error}") from error
    if record is None or kind not in (ControlType.ABORT, ControlType.COMMIT):
        return
    value = record.value or b""
    completed = producers.apply_marker(
        header,
        header.base_offset,
        header.max_timestamp,
        coordinator_epoch=_MARKER.unpack_from(value)[1] if len(value) >= _MARKER.size else NO_EPOCH,
        aborted=kind is ControlType.ABORT,
    )
    if completed is not None and completed.aborted:
        undecided = producers.first_undecided_offset
        stable = completed.last_offset + 1 if undecided is None else undecided
        transactions.append(
            AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        )


def recover(
    files: Files, directory: str, settings: LogSettings, facts: OpenFacts, rules: Rules, now_ms: int
) -> RecoveredLog:
    """Open the segments of a log. CorruptionError when synced data is bad or gone; nothing is changed then."""
    return _Recovery(files, directory, settings, facts, rules, now_ms).run()


class _Recovery:
    def __init__(
        self, files: Files, directory: str, settings: LogSettings, facts: OpenFacts, rules: Rules, now_ms: int
    ) -> None:
        self._files = files
        self._directory = directory
        self._settings = settings
        self._facts = facts
        self._gaps = settings.compact_policy or facts.tombstone_horizon != NEVER_COMPACTED
        self._rules = rules
        self._now_ms = now_ms
        self._segments: list[Segment] = []
        self._leftovers: list[str] = []
        self._created = False
        self._doubtful = self._fresh = False
        self._scanned_bytes = 0
        self._unsynced: list[File] = []

    def run(self) -> RecoveredLog:
        try:
            return self._run()
        except BaseException:
            for segment in self._segments:
                segment.file.close()
            raise
        finally:
            for file in self._unsynced:
                file.close()

    def _run(self) -> RecoveredLog:
        self._open_segments()
        self._load_epochs()
        trusted = self._trust_seals()
        self._producers = ProducerStates(self._files, self._directory)
        self._snapshots = self._producers.snapshots()
        self._replay(trusted)
        self._scan(trusted)
        self._check_floor()
        self._make_synced(trusted)
        result = RecoveredLog(self._segments, self._epochs, self._producers)
        result.doubtful, result.scanned_bytes = self._doubtful, self._scanned_bytes
        result.is_fresh = self._fresh
        return result

    # ------------------------------------------------------------------ what is there

    def _open_segments(self) -> None:
        names = self._files.list(self._directory)
        if any(name.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for name in names):
            self._leftovers += finish_swaps(self._files, self._directory)
            names = self._files.list(self._directory)
        bases = [
            int(name.removesuffix(LOG_SUFFIX))
            for name in names
            if name.endswith(LOG_SUFFIX) and name.removesuffix(LOG_SUFFIX).isdecimal()
        ]
        start = self._facts.log_start
        # Wholly below the log start: a deletion whose directory entries came back.
        expired = [base for base, following in pairwise(bases) if following <= start]
        logs = {f"{base:020d}" for base in bases if base not in expired}
        for name in names:
            stem, dot, suffix = name.partition(".")
            if (
                len(stem) == _NAME_DIGITS
                and stem.isdecimal()
                and (
                    suffix.endswith(DELETED_SUFFIX)
                    or (stem not in logs and dot + suffix in (*DERIVED_SUFFIXES, LOG_SUFFIX))
                )
            ):
                self._leftovers.append(f"{self._directory}/{name}")
        for base in bases:
            if base not in expired:
                segment = Segment.open(self._files, self._directory, base)
                segment.gaps = self._gaps
                self._segments.append(segment)
        if not self._segments:
            if self._facts.synced_floor > start and self._rules.r17_quarantine_synced_corruption:
                raise CorruptionError(
                    f"{self._directory} has no segments, but was synced up to {self._facts.synced_floor}"
                )
            self._segments.append(Segment.open(self._files, self._directory, start, create=True))
            self._created = True
        elif self._segments[0].base > start:
            if self._facts.synced_floor > start and self._rules.r17_quarantine_synced_corruption:
                raise CorruptionError(
                    f"{self._directory} begins at {self._segments[0].base}, but was synced from {start} on"
                )
            self._begin_anew(start)

    def _begin_anew(self, start: int) -> None:
        """Nothing of this log ever counted, and its first segments are gone: what is left follows upon nothing, and
        would let the replica be in sync without what it lacks."""
        self._doubtful = any(has_valid_batch(each.file, 0, each.file.size(), start) for each in self._segments)
        for segment in reversed(self._segments):
            segment.remove()
            self._files.sync_directory(self._directory)
        self._segments = [Segment.open(self._files, self._directory, start, create=True)]
        self._created = True

    def _load_epochs(self) -> None:
        self._epochs_known = True
        try:
            self._epochs = EpochHistory.load(self._files, self._directory, self._rules)
        except CorruptionError:
            self._epochs = EpochHistory(self._files, self._directory, rules=self._rules)
        if self._epochs.epoch_at(max(self._facts.log_start, self._segments[0].base)) == NO_EPOCH:
            # Lost, damaged, or cut for a log start that did not last itself. Batches carry their epochs, so a scan of
            # them all brings it back (R3).
            self._epochs = EpochHistory(self._files, self._directory, rules=self._rules)
            self._epochs_known = False

    def _trust_seals(self) -> int:
        """How many segments from the start need no scan."""
        if not self._epochs_known and any(segment.file.size() for segment in self._segments):
            return 0
        for count, segment in enumerate(self._segments):
            following = self._segments[count + 1].base if count + 1 < len(self._segments) else None
            seal = segment.read_seal()
            if seal is None or not segment.has_intact_transactions(seal):
                return count
            if following is not None and seal.end != following:
                return count
            if not self._facts.clean and (following is None or following > self._facts.recovery_point):
                return count
            segment.trust(seal)
        return len(self._segments)

    # ------------------------------------------------------------------ producers of what needs no scan

    def _replay(self, trusted: int) -> None:
        """Bring the producers to the first segment that will be scanned, from the newest snapshot below."""
        start = self._facts.log_start
        end = self._segments[trusted].base if trusted < len(self._segments) else self._segments[-1].end
        position = self._producers.load_latest(start, end, self._now_ms)
        for segment in self._segments[:trusted]:
            if segment.end > position:
                at = segment.position_of(max(position, segment.base))
                for batch in verified_from(segment.file, at, segment.size):
                    # The transaction index of this segment is intact already.
                    apply_batch(batch, self._producers, TransactionIndex())

    # ------------------------------------------------------------------ the scan

    def _scan(self, trusted: int) -> None:
        if trusted == len(self._segments):
            return
        first = self._segments[trusted]
        epoch = self._epochs.epoch_at(first.base - 1) if trusted else NO_EPOCH
        chain = Chain(first.base, epoch, gaps=self._gaps)
        for number in range(trusted, len(self._segments)):
            segment = self._segments[number]
            if segment.base != chain.following:
                reason = f"begins at {segment.base} where {chain.following} should follow"
                self._cut(number, 0, chain.following, CorruptionError(f"{segment.file.path} {reason}"))
                return
            if number > trusted:
                # The next recovery need not replay what this one did.
                self._unless_full(partial(self._producers.snapshot, segment.base))
            try:
                self._scan_segment(segment, chain)
            except BadBatchError as bad:
                self._cut(number, bad.position, chain.following, bad)
                return

    def _scan_segment(self, segment: Segment, chain: Chain) -> None:
        interval = self._settings.index_interval_bytes
        for batch in verified_from(segment.file, 0, segment.file.size()):
            header = batch.header
            reason = self._epoch_problem(header.partition_leader_epoch, header.last_offset) or chain.admit(header)
            if reason is not None:
                raise BadBatchError(segment.file, batch.position, reason)
            if batch.position == 0:
                segment.first_timestamp = header.max_timestamp
            segment.note(header.base_offset, header.last_offset, header.size, header.largest_timestamp, interval)
            if header.partition_leader_epoch > self._epochs.latest:
                self._epochs.assign(header.partition_leader_epoch, header.base_offset)
            apply_batch(batch, self._producers, segment.transactions)
            self._scanned_bytes += header.size

    def _epoch_problem(self, epoch: int, offset: int) -> str | None:
        """No CRC covers the epoch of a batch, but below the recovery point the history is complete (R3)."""
        if self._epochs_known and self._facts.log_start <= offset < self._facts.recovery_point:
            known = self._epochs.epoch_at(offset)
            if known != epoch:
                return f"has leader epoch {epoch} where the history says {known}"
        return None

    def _cut(self, number: int, position: int, end: int, problem: CorruptionError) -> None:
        """Everything from `position` of this segment on is not a log. `end` is the offset that should follow."""
        if end < self._facts.synced_floor and self._rules.r17_quarantine_synced_corruption:
            raise CorruptionError(f"{problem} (synced up to {self._facts.synced_floor}, nothing was cut)") from problem
        segment = self._segments[number]
        self._doubtful = has_valid_batch(segment.file, position + 1, segment.file.size(), end) or any(
            has_valid_batch(later.file, 0, later.file.size(), end) for later in self._segments[number + 1 :]
        )
        keep = number + 1 if position or number == 0 or segment.base == end else number
        for later in reversed(self._segments[keep:]):
            later.remove()
            self._files.sync_directory(self._directory)
        del self._segments[keep:]
        if keep == number + 1:
            segment.remove_derived()
            segment.file.truncate(position)
            segment.file.sync()

    def _check_floor(self) -> None:
        end = self._segments[-1].end
        if end < self._facts.synced_floor and self._rules.r17_quarantine_synced_corruption:
            kind = ShortLogError if end < self._facts.high_watermark else CorruptionError
            raise kind(f"{self._directory} ends at {end}, but was synced up to {self._facts.synced_floor}")

    # ------------------------------------------------------------------ making it count

    def _make_synced(self, trusted: int) -> None:
        start, end = self._facts.log_start, self._segments[-1].end
        # An entry at the very end is an epoch without records. It may be left from an interrupted truncation, and then
        # it would contradict what comes next.
        self._epochs.truncate_from_end(end)
        if self._is_untouched(trusted, end):
            self._unless_full(self._epochs.write)
            return
        if self._is_empty(end):
            self._fresh = True
            self._unless_full(self._epochs.write)
            return
        if not self._facts.clean:
            for segment in self._segments:
                # The last one in any case: it may have been cut by a truncation that did not last.
                if segment.end > self._facts.synced_floor or segment is self._segments[-1]:
                    self._rewrite(segment)
        if end < start:
            self._start_over(start)
        for path in self._leftovers:
            with suppress(FileNotFoundError):  # the helper of a broker that was killed may clear up too
                self._files.remove(path)
        for segment in self._segments[trusted:-1]:
            self._unless_full(partial(self._seal, segment))
        self._unless_full(self._epochs.write)
        self._files.sync_directory(self._directory)

    def _is_untouched(self, trusted: int, end: int) -> bool:
        """Whether a clean start changed nothing in the directory, so that nothing is to be synced.

        A new segment must last, or a later one might outlive it. A snapshot above the end was removed, and must not
        come back when the log has grown past it.
        """
        is_whole = self._facts.clean and trusted == len(self._segments) and not self._created
        return is_whole and not self._leftovers and not self._has_stale_snapshots(end)

    def _is_empty(self, end: int) -> bool:
        """Whether there is nothing that could count, so that a thousand new partitions need no thousand syncs."""
        is_one_and_empty = len(self._segments) == 1 and not self._segments[0].size and end >= self._facts.log_start
        return is_one_and_empty and not self._leftovers and not self._has_stale_snapshots(end)

    def _has_stale_snapshots(self, end: int) -> bool:
        return bool(self._snapshots) and self._snapshots[-1] > end

    def _seal(self, segment: Segment) -> None:
        for file in segment.seal():
            self._unsynced.append(file)
            file.sync()
        segment.unload()

    def _unless_full(self, write: Callable[[], None]) -> None:
        """Write what could be derived again: a full disk must not keep a log from being read (R10)."""
        try:
            write()
        except OSError as error:
            if error.errno not in FULL_DISK:
                raise

    def _start_over(self, start: int) -> None:
        """All that was left lies below the log start: those records were deleted on purpose, the log begins anew.

        The new segment comes first, so that after a crash here the old ones are leftovers below the log start.
        """
        fresh = Segment.open(self._files, self._directory, start, create=True)
        self._files.sync_directory(self._directory)
        for segment in reversed(self._segments):
            segment.remove()
        self._segments = [fresh]
        self._epochs.truncate_from_end(start)

    def _rewrite(self, segment: Segment) -> None:
        """R19: after a failed fsync the pages look clean and the next fsync lies, so they are made dirty again."""
        position = segment.position_of(max(self._facts.synced_floor, segment.base))
        if self._rules.r19_rewrite_unsynced_tail:
            while position < segment.size:
                data = segment.file.read_at(position, min(RECOVERY_SCAN_BYTES, segment.size - position))
                segment.file.write_at(data, position)
                position += len(data)
        if segment.file.size() >= ROOM_FROM_BYTES:
            segment.file.truncate(segment.size)  # gives back the blocks that were made ready behind its end
        segment.file.sync()
