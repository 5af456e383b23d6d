"""One log: segments of batches, appended at the end, read anywhere, cut at either end.

The way of a batch: `append_as_leader` validates it, asks the producers, patches offset and epoch in place and writes it
once; only then do end, indexes, epochs and producers learn of it (R11). `unsynced_files` and `synced` bracket a group
commit. `read` answers with a slice of a file for sendfile. The longest file of storage, because the laws that bind
these paths (what is written, synced, published) are visible only side by side.

Laws: start ≤ synced_end ≤ end, except that truncation lowers all of them. Below `synced_end` everything, directory
entries included, survives a power loss. A failed append leaves the log as it was (R10); after any other failed write,
and after a failed sync, it refuses everything that writes.
"""

from collections.abc import Mapping
from itertools import takewhile
from typing import NoReturn

from librt.strings import read_i32_be, read_i64_be

from hightide.errors import ApiError, CorruptionError, DiskFullError, ErrorCode, StorageError
from hightide.rules import ALL_ON, Rules
from hightide.storage.checkpoints import parent_of
from hightide.storage.compaction_plans import Cleanable, Cleaned, CompactionJob, LastBatch, plan
from hightide.storage.files import File, Files, FileSlice, Syncable
from hightide.storage.index import OFFSET_ENTRY_BYTES
from hightide.storage.recovery import FULL_DISK, NO_DESCRIPTORS, RecoveredLog, apply_batch, recover
from hightide.storage.retention import plan_start
from hightide.storage.scanning import Chain, StoredBatch, verified_from
from hightide.storage.segment import Segment
from hightide.storage.segments import Segments
from hightide.storage.settings import NEVER_COMPACTED, LogSettings, OpenFacts, produce_policy
from hightide.storage.swaps import Swaps
from hightide.storage.syncing import DirectoryEntries, Removal, SyncPlan, Unsynced
from hightide.storage.timestamps import Found, first_at_or_after, youngest
from hightide.storage.transaction_index import TransactionIndex
from hightide.storage.verification import Scrubbed, Verification
from hightide.types import ABOVE_ALL_OFFSETS, NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from hightide.wire.checksum import crc32c
from hightide.wire.records import (
    LAST_OFFSET_DELTA_AT,
    LENGTH_OVERHEAD,
    MAX_TIMESTAMP_AT,
    PRODUCER_ID_AT,
    BatchHeader,
    Buffer,
    Records,
    head_of,
    iterate_headers,
    patch_offsets,
    placed,
    read_header,
)
from hightide.wire.validation import checked_batches, validate_for_produce

__all__ = ["Appended", "Log", "Read", "SyncPlan"]


class Appended:
    """Where a batch is. `append_time` is -1 unless the topic uses the broker's time."""

    __slots__ = ("append_time", "base_offset", "duplicate", "last_offset", "log_start")

    def __init__(self, base_offset: int, last_offset: int, append_time: int, log_start: int, duplicate: bool) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.append_time = append_time
        self.log_start = log_start
        self.duplicate = duplicate


class _Placed:
    """A client's batch with its offsets, until it is written."""

    __slots__ = ("base", "batch", "header", "last", "length", "timestamp")

    def __init__(
        self, batch: Buffer, base: int, last: int, length: int, timestamp: int, header: BatchHeader | None
    ) -> None:
        self.batch = batch
        self.base = base
        self.last = last
        self.length = length
        self.timestamp = timestamp
        self.header = header


class Read:
    """Whole batches of one segment; `end` is the offset after the last. Whoever gets it releases the slice."""

    __slots__ = ("end", "slice")

    def __init__(self, piece: FileSlice, end: int) -> None:
        self.slice = piece
        self.end = end


class Log:
    """One replica of one partition on disk. `open` it; nothing else makes one."""

    __slots__ = (
        "_files", "_flush_messages", "_index_interval_bytes", "_policy", "_rules", "_segment_bytes", "_segments",
        "_swaps", "_unsynced", "_verification", "directory", "doubtful", "end", "epochs", "failure", "is_deleted",
        "partition", "producers", "settings", "start", "synced_end", "tombstone_horizon", "topic", "topic_id",
        "truncation_generation", "unsynced_since_ms",
    )  # fmt: skip

    start: int
    """The first offset that may be read."""
    end: int
    """The written end: after the last whole batch given to the operating system."""
    synced_end: int
    truncation_generation: int
    """Counts truncations: a sync that began before one proves nothing after it (R19)."""
    doubtful: bool
    """Whether opening it cut a tail with valid batches behind the cut (R17)."""
    failure: str | None
    """Why nothing may be written any more (R10)."""
    tombstone_horizon: int
    """Tombstones below it may be missing (R20); NEVER_COMPACTED in a log without gaps. Checkpointed before it is so."""
    unsynced_since_ms: int
    """When the oldest unsynced batch was appended, for flush.ms; -1 when there is none."""

    def __init__(
        self,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        settings: LogSettings,
        recovered: RecoveredLog,
        facts: OpenFacts,
        rules: Rules,
        *,
        is_new: bool,
    ) -> None:
        self._files = files
        self._rules = rules
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.epochs = recovered.epochs
        self.producers = recovered.producers
        self.doubtful = recovered.doubtful
        self.failure = None
        self.is_deleted = False
        self._segments = Segments(files, directory, recovered.segments)
        self._unsynced = Unsynced(files, directory, rules, is_new=is_new)
        self.end = self.synced_end = self._segments.active.end
        self.start = min(max(facts.log_start, self._segments.first_base), self.end)
        self.tombstone_horizon = facts.tombstone_horizon
        self.truncation_generation = 0
        self.unsynced_since_ms = NO_TIMESTAMP
        self._verification = Verification(self.epochs, gaps=False)
        self._swaps = Swaps(files, directory, self._segments)
        self.epochs.truncate_from_start(self.start)
        self.configure(settings)

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        topic: str,
        partition: int,
        topic_id: bytes,
        settings: LogSettings,
        *,
        facts: OpenFacts,
        now_ms: int,
        rules: Rules = ALL_ON,
    ) -> "Log":
        """Open or create a log; everything in it is synced and counts when this returns.

        CorruptionError: the replica must be quarantined, its batches were left alone (R17). OSError: the disk failed.
        """
        is_new = not files.exists(directory)
        if is_new:
            files.make_directory(directory)
        recovered = recover(files, directory, settings, facts, rules, now_ms)
        is_new = is_new or recovered.is_fresh
        if not (is_new or facts.clean or facts.entered):
            files.sync_directory(parent_of(directory))
        return cls(files, directory, topic, partition, topic_id, settings, recovered, facts, rules, is_new=is_new)

    def configure(self, settings: LogSettings) -> None:
        """Use these settings from the next append on."""
        self.settings = settings
        self._policy = produce_policy(settings)
        self._segment_bytes = settings.segment_bytes
        self._flush_messages = min(settings.flush_messages, ABOVE_ALL_OFFSETS)
        self._index_interval_bytes = settings.index_interval_bytes
        self._allow_gaps()
        self._set_limits(self._segments.active, self._segments.active.first_timestamp)

    @property
    def has_gaps(self) -> bool:
        """R21: whether offsets may be missing, because the topic is or was compacted."""
        return self.settings.compact_policy or self.tombstone_horizon != NEVER_COMPACTED

    def set_horizon(self, horizon: int) -> None:
        """Tombstones below may be missing, and offsets too; the caller has checkpointed it."""
        self.tombstone_horizon = horizon
        self._allow_gaps()

    def _allow_gaps(self) -> None:
        self._verification.gaps = self.has_gaps
        for segment in self._segments:
            segment.gaps = self.has_gaps

    @property
    def size_bytes(self) -> int:
        """Bytes of all batches."""
        return self._segments.size_bytes

    @property
    def active_bytes(self) -> int:
        """Bytes of the segment that is appended to."""
        return self._segments.active.size

    def bytes_below(self, offset: int) -> int:
        """Bytes of the sealed segments that go when the log starts at `offset`."""
        return sum(
            segment.size for segment in self._segments if segment.end <= offset and segment is not self._segments.active
        )

    @property
    def segment_count(self) -> int:
        """How many segments there are, the active one included."""
        return len(self._segments)

    # ------------------------------------------------------------------ appending

    def append_as_leader(self, data: Records, leader_epoch: int, now_ms: int) -> Appended:
        """Append a client's batch; a view is patched in place.

        ApiError when the batch is refused; DiskFullError or StorageError as R10 says.
        """
        if self.failure is not None:
            raise StorageError(self.failure)
        batch = validate_for_produce(data, self._policy, now_ms)
        head = head_of(batch)
        producers = self.producers
        header: BatchHeader | None = None
        if read_i64_be(head, PRODUCER_ID_AT) >= 0:
            header = read_header(head)
            duplicate = producers.check(header, now_ms)
            if duplicate is not None:
                append_time = duplicate.timestamp if self._policy.append_time else NO_TIMESTAMP
                return Appended(duplicate.base_offset, duplicate.last_offset, append_time, self.start, True)
        epochs = self.epochs
        if leader_epoch < epochs.latest:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {leader_epoch} wrote after {epochs.latest}")
        length = len(batch)
        if length > self._segment_bytes:
            raise ApiError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{length} bytes, a segment has {self._segment_bytes}")
        base = self.end
        delta: int = read_i32_be(head, LAST_OFFSET_DELTA_AT)
        last = base + delta
        timestamp: int = read_i64_be(head, MAX_TIMESTAMP_AT)
        batch = placed(batch, base, leader_epoch)
        if header is not None and not self._rules.r11_producer_state_after_append:
            producers.apply(header, base, timestamp)
        segment = self._segments.active
        position = segment.size
        if (
            not position
            or position + length > self._segment_bytes
            or timestamp > segment.roll_after_ms
            or timestamp < 0
            or last > segment.last_offset_max
        ):
            segment = self._writable(length, last, timestamp, now_ms)
        if segment.size + length > segment.room_end:
            self._make_room(segment, length)
        try:
            segment.file.write_at(batch, segment.size)
        except OSError as error:
            self._append_failed(error)
        segment.note(base, last, length, timestamp, self._index_interval_bytes)
        self.end = last + 1
        if leader_epoch != epochs.latest:
            epochs.assign(leader_epoch, base)
        if header is not None and self._rules.r11_producer_state_after_append:
            producers.apply(header, base, timestamp)
        if self.unsynced_since_ms < 0:
            self.unsynced_since_ms = now_ms
        append_time = timestamp if self._policy.append_time else NO_TIMESTAMP
        return Appended(base, last, append_time, self.start, False)

    def append_run(self, batches: list[Records], first: int, leader_epoch: int, now_ms: int) -> list[Appended]:
        """Append clients' batches, from the `first` on, as far as one write can take them.

        Each as `append_as_leader` would; it ends before the one that can't go with the others. That one may need a new
        segment, be a duplicate or bad, or follow on another of its producer here: it needs `append_as_leader`, which
        says so. None when the write fails, for the same reason: a full disk may have room for one.
        """
        segment = self._segments.active
        size = segment.size
        if self.failure is not None or not size or leader_epoch != self.epochs.latest:
            return []
        base = self.end
        run: list[_Placed] = []
        producer_ids: set[int] = set()
        for at in range(first, len(batches)):
            piece = self._placed_behind(batches[at], base, leader_epoch, now_ms, producer_ids)
            if (
                piece is None
                or size + piece.length > self._segment_bytes
                or piece.timestamp > segment.roll_after_ms
                or piece.timestamp < 0
                or piece.last > segment.last_offset_max
            ):
                break
            run.append(piece)
            base = piece.last + 1
            size += piece.length
        if not run:
            return []
        if size > segment.room_end:
            self._make_room(segment, size - segment.size)
        try:
            segment.file.write_at(b"".join([piece.batch for piece in run]), segment.size)
        except OSError as error:
            try:
                self._append_failed(error)
            except StorageError:
                return []
        return self._published(segment, run, now_ms)

    def _make_room(self, segment: Segment, length: int) -> None:
        """Blocks for what is appended, and some more; not while the segment before is on its way to the disk.

        To find blocks a file system may have to read where they are free, and waits behind all that is being written.
        """
        if self.synced_end >= segment.base:
            segment.make_room(length, self._segment_bytes)

    def _placed_behind(
        self, data: Records, base: int, leader_epoch: int, now_ms: int, producer_ids: set[int]
    ) -> "_Placed | None":
        """A client's batch as it follows on others that are not written yet; None when it must not."""
        header: BatchHeader | None = None
        try:
            batch = validate_for_produce(data, self._policy, now_ms)
            head = head_of(batch)
            producer_id: int = read_i64_be(head, PRODUCER_ID_AT)
            if producer_id >= 0:
                header = read_header(head)
                if producer_id in producer_ids or self.producers.check(header, now_ms) is not None:
                    return None
                producer_ids.add(producer_id)
        except ApiError:
            return None
        delta: int = read_i32_be(head, LAST_OFFSET_DELTA_AT)
        timestamp: int = read_i64_be(head, MAX_TIMESTAMP_AT)
        return _Placed(placed(batch, base, leader_epoch), base, base + delta, len(batch), timestamp, header)

    def _published(self, segment: Segment, run: "list[_Placed]", now_ms: int) -> list[Appended]:
        """The run is written: let everyone know (R11)."""
        start, has_append_time = self.start, self._policy.append_time
        appended: list[Appended] = []
        for piece in run:
            segment.note(piece.base, piece.last, piece.length, piece.timestamp, self._index_interval_bytes)
            if piece.header is not None:
                self.producers.apply(piece.header, piece.base, piece.timestamp)
            append_time = piece.timestamp if has_append_time else NO_TIMESTAMP
            appended.append(Appended(piece.base, piece.last, append_time, start, False))
        self.end = segment.end
        if self.unsynced_since_ms < 0:
            self.unsynced_since_ms = now_ms
        return appended

    def append_own(self, data: memoryview, leader_epoch: int, now_ms: int) -> Appended:
        """Append what the broker itself wrote: several batches and control batches are allowed; patched in place."""
        if self.failure is not None:
            raise StorageError(self.failure)
        batches = checked_batches(data)
        base = offset = self.end
        with_offsets: list[tuple[int, BatchHeader]] = []
        for position, header in batches:
            patch_offsets(data, position, offset, leader_epoch)
            with_offsets.append((position, header.replaced(base_offset=offset, partition_leader_epoch=leader_epoch)))
            offset += header.last_offset_delta + 1
        if not with_offsets:
            raise ApiError(ErrorCode.INVALID_RECORD, "there is no batch to append")
        if leader_epoch < self.epochs.latest:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH, f"epoch {leader_epoch} wrote after {self.epochs.latest}")
        self._append_placed(data, with_offsets, now_ms)
        return Appended(base, self.end - 1, NO_TIMESTAMP, self.start, False)

    def append_as_follower(self, data: memoryview, fetch_epoch: int, now_ms: int) -> None:
        """Append what the leader sent, byte for byte (R21); ApiError, and nothing appended, when it may not follow."""
        if self.failure is not None:
            raise StorageError(self.failure)
        if self._rules.r21_followers_verify:
            batches = checked_batches(data)
            self._check_chain(batches, fetch_epoch)
        else:
            batches = list(iterate_headers(data))
        if batches:
            self._append_placed(data, batches, now_ms)

    def _check_chain(self, batches: list[tuple[int, BatchHeader]], fetch_epoch: int) -> None:
        last_epoch = self.epochs.epoch_at(self.end - 1) if self.end > self.start else NO_EPOCH
        following = self.end
        for _, header in batches:  # the ordinary answer, without a call for each batch
            if header.base_offset != following or not last_epoch == header.partition_leader_epoch <= fetch_epoch:
                break
            following += header.last_offset_delta + 1
        else:
            return
        chain = Chain(self.end, last_epoch, gaps=self.has_gaps)
        for position, header in batches:
            reason = chain.admit(header)
            if header.partition_leader_epoch > fetch_epoch:
                reason = f"has leader epoch {header.partition_leader_epoch}, fetched in {fetch_epoch}"
            if reason is not None:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the fetched batch at byte {position} {reason}")

    def _append_placed(self, data: memoryview, batches: list[tuple[int, BatchHeader]], now_ms: int) -> None:
        """Write batches that have their offsets: as many at once as fit the segment, each whole in one."""
        count = len(batches)
        first = 0
        while first < count:
            start, header = batches[first]
            segment = self._writable(header.size, header.last_offset, header.max_timestamp, now_ms)
            room_end = start + self._segment_bytes - segment.size
            roll_after_ms, last_offset_max = segment.roll_after_ms, segment.last_offset_max
            following = first + 1
            stop = start + header.size
            while following < count:
                header = batches[following][1]
                end = stop + header.batch_length + LENGTH_OVERHEAD
                last = header.base_offset + header.last_offset_delta
                if end > room_end or header.max_timestamp > roll_after_ms or last > last_offset_max:
                    break
                stop = end
                following += 1
            if segment.size + stop - start > segment.room_end:
                self._make_room(segment, stop - start)
            try:
                segment.file.write_at(data[start:stop], segment.size)
            except OSError as error:
                self._append_failed(error)
            for position, header in batches[first:following]:
                self._placed(segment, data, position, header)
            first = following
        if self.unsynced_since_ms < 0:
            self.unsynced_since_ms = now_ms

    def _placed(self, segment: Segment, data: memoryview, position: int, header: BatchHeader) -> None:
        """A batch is written: let everyone know (R11)."""
        epoch, base, written_at = header.partition_leader_epoch, header.base_offset, segment.size
        last = base + header.last_offset_delta
        length = header.batch_length + LENGTH_OVERHEAD
        segment.note(base, last, length, header.largest_timestamp, self._index_interval_bytes)
        self.end = last + 1
        if epoch != self.epochs.latest:
            # An epoch without records of its own may stand at the end; what the leader wrote there wins.
            self.epochs.truncate_from_end(base)
            self.epochs.assign(epoch, base)
        if header.producer_id >= 0:
            apply_batch(StoredBatch(written_at, header, data, position), self.producers, segment.transactions)

    def _writable(self, length: int, last: int, timestamp: int, now_ms: int) -> Segment:
        """The active segment, rolled before if the batch does not belong there any more."""
        segment = self._segments.active
        size = segment.size
        when = timestamp if timestamp >= 0 else now_ms
        if size:
            if size + length > self._segment_bytes or when > segment.roll_after_ms or last > segment.last_offset_max:
                self.roll()
                segment = self._segments.active
            else:
                return segment
        self._set_limits(segment, when)
        return segment

    def _set_limits(self, segment: Segment, first_timestamp: int) -> None:
        settings = self.settings
        segment.index_entries_max = settings.segment_index_bytes // OFFSET_ENTRY_BYTES
        segment.first_timestamp = first_timestamp
        segment.roll_after_ms = max(first_timestamp, 0) + settings.roll_ms
        jitter = min(settings.segment_jitter_ms, settings.roll_ms)
        if jitter:
            # Spreads the rolls of many partitions, the same way in every run.
            segment.roll_after_ms -= crc32c(b"%s%d/%d" % (self.topic_id, self.partition, segment.base)) % jitter

    def roll(self) -> None:
        """Seal the active segment and begin a new one; nothing to do when it is empty."""
        active = self._segments.active
        if not active.size:
            return
        if self.failure is not None:
            raise StorageError(self.failure)
        indexes: list[File] = []
        try:
            indexes = active.seal()
            active.give_room_back()
            self.producers.snapshot(self.end)
            segment = Segment.open(self._files, self.directory, self.end, create=True)
        except OSError as error:
            for file in indexes:
                file.close()
            if error.errno in FULL_DISK:
                raise DiskFullError(f"{self.directory} can't begin a new segment: {error}") from error
            if error.errno in NO_DESCRIPTORS:  # says nothing about the disk: whoever appends tries again
                raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"no new segment: {error}") from error
            self._fail(error)
        segment.gaps = active.gaps
        self._segments.append(segment)
        self._unsynced.indexes += indexes
        self._unsynced.directory_changed()

    def _append_failed(self, error: OSError) -> NoReturn:
        """R10: a full disk is cut back and read-only; every other failure is the end of this log's writing."""
        if error.errno not in FULL_DISK:
            self._fail(error)
        active = self._segments.active
        try:
            active.file.truncate(active.size)
            active.was_cut_back = True
        except OSError as second:
            self._fail(second)
        raise DiskFullError(f"{self.directory} is on a full disk: {error}") from error

    def _fail(self, error: OSError) -> NoReturn:
        self.failure = f"{self.directory} can't be written: {error}"
        raise StorageError(self.failure) from error

    # ------------------------------------------------------------------ group commit (R19)

    @property
    def needs_sync(self) -> bool:
        """Whether a log that does not sync for its acknowledgements should (flush.messages, or a sealed segment)."""
        return bool(self._unsynced.indexes) or self.end - self.synced_end >= self._flush_messages

    def unsynced_files(self) -> SyncPlan:
        """What to sync so that everything written so far lasts. Each plan goes to `synced` exactly once."""
        self.unsynced_since_ms = NO_TIMESTAMP
        synced_end = self.synced_end
        unsynced = list(takewhile(lambda each: each.end > synced_end or each.was_cut_back, reversed(self._segments)))
        for segment in unsynced:
            segment.was_cut_back = False
        return self._unsynced.plan(unsynced, self.end, self.truncation_generation)

    def synced(self, plan: SyncPlan, error: Exception | None = None) -> bool:
        """The plan was carried out. Whether the synced end covers it now: not after a failure or a truncation."""
        plan.release()
        if error is not None:
            if self._rules.r10_offline_on_failed_sync:
                self.failure = f"{self.directory} can't be synced: {error}"
            return False
        if self.failure is not None:
            # A sync after a failed one returns without having written what that one lost (R10).
            return False
        self._unsynced.synced(plan)
        if plan.truncation_generation != self.truncation_generation and self._rules.r19_void_sync_after_truncation:
            return False
        self.synced_end = max(self.synced_end, min(plan.end, self.end))
        return True

    # ------------------------------------------------------------------ reading

    def read(self, offset: int, max_bytes: int, *, upper_bound: int, min_one_batch: bool) -> Read | None:
        """Whole batches from the one that holds `offset` on, below `upper_bound`, of one segment.

        None when there is nothing (yet), or when the first batch is larger than `max_bytes` and not `min_one_batch`.
        ApiError(OFFSET_OUT_OF_RANGE) outside [start, end] (R13); CorruptionError when stored bytes are bad (I31).
        """
        if offset < self.start or offset > self.end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is outside [{self.start}, {self.end}]")
        if offset >= upper_bound or offset == self.end:
            return None
        segment = self._segments.active
        if offset < segment.base:
            segment = self._segments.find(offset)
        start = segment.position_of(offset)
        if upper_bound >= segment.end:
            stop, following = segment.size, segment.end
        else:
            stop, following = segment.position_of(upper_bound), upper_bound
        if stop - start > max_bytes:
            stop, following = segment.boundary_before(start, start + max_bytes)
            if stop == start:
                if not min_one_batch:
                    return None
                header = segment.batch_at(start)
                stop, following = start + header.size, header.next_offset
        if start >= stop:
            return None
        if start < segment.verified_start:
            good = self._verification.verify(segment, start, stop)
            if good is not None:
                stop, following = good
        if following < segment.end:
            segment.remember(following, stop)
        return Read(FileSlice(segment.file, start, stop - start, segment), following)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Below it every transaction is decided and its marker committed."""
        unstable = self.producers.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    def aborted_transactions(self, start: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of each aborted transaction with offsets in [start, end)."""
        found: list[tuple[int, int]] = []
        for segment in self._segments.beginning_with(start):
            transactions = segment.transactions
            found += [(entry.producer_id, entry.first_offset) for entry in transactions.overlapping(start, end)]
            if transactions.covers(end):
                break
        return found

    def offset_for_timestamp(self, timestamp: int, upper_bound: int) -> Found | None:
        """(offset, timestamp, leader epoch) of the first record that is not older, below `upper_bound`."""
        end = min(upper_bound, self.end)
        found = first_at_or_after(self._segments, timestamp, self.start, end, self._verification)
        self._segments.unload_idle()
        return found

    def max_timestamp_offset(self, upper_bound: int) -> Found | None:
        """(offset, timestamp, leader epoch) of the youngest record below `upper_bound`."""
        found = youngest(self._segments, self.start, min(upper_bound, self.end), self._verification)
        self._segments.unload_idle()
        return found

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """The largest epoch ≤ `epoch` and where it ends (KIP-101); (-1, -1) for an epoch this log never heard of."""
        if epoch > self.epochs.latest:
            return NO_EPOCH, NO_OFFSET
        return self.epochs.end_of(epoch, self.end)

    # ------------------------------------------------------------------ cutting the end

    def cut_point(self, offset: int) -> int:
        """Where the log ends after `truncate(offset)`: lower, when a batch holds the offset or none does."""
        if offset >= self.end or offset < self._segments.first_base:
            return min(offset, self.end)
        segment = self._segments.find(offset)
        position = segment.position_of(offset)
        return segment.batch_at(position).base_offset if not self.has_gaps else segment.end_before(position)

    def truncate(self, offset: int, now_ms: int) -> None:
        """Cut everything from `offset` on; a batch that holds it goes whole.

        The caller has durably lowered the recorded synced end and the recovery point before, to `cut_point` (R17).
        Blocks for a few fsyncs: truncation is rare, and what follows it must not mix with what was cut.
        """
        if offset >= self.end:
            return
        if offset < self._segments.first_base:
            self.truncate_fully(offset)
            return
        if self.failure is not None:
            raise StorageError(self.failure)
        self.truncation_generation += 1
        try:
            self._swaps.abandon()
            self._segments.remove_from_end(offset)
            segment = self._segments.active
            position = segment.position_of(offset)
            end = segment.end_before(position) if position < segment.size else segment.end
            segment.truncate(position, end)
            segment.file.sync()
            self.epochs.truncate_from_end(end)
            self.epochs.write()
            self._rebuild_producers(end, now_ms)
            self._files.sync_directory(self.directory)
        except OSError as error:
            self._fail(error)
        self._publish_end(end)

    def truncate_fully(self, new_start: int) -> None:
        """Drop everything and begin anew at `new_start`, as a follower that fell out of its leader's log does.

        The caller has durably lowered everything remembered of this log to 0 before (R17), and checkpoints the new
        start before it records a synced end: a log that begins behind its remembered start otherwise looks like one
        that lost its first segment.
        """
        if self.failure is not None:
            raise StorageError(self.failure)
        self.truncation_generation += 1
        try:
            self._swaps.abandon()
            self._segments.replace_all(new_start, gaps=self.has_gaps)
            self.epochs.clear()
            self.epochs.write()
            self.producers.reset()
            self._files.sync_directory(self.directory)
        except OSError as error:
            self._fail(error)
        self.start = new_start
        self.synced_end = new_start
        self.tombstone_horizon = min(self.tombstone_horizon, 0)
        self._publish_end(new_start)

    def _rebuild_producers(self, end: int, now_ms: int) -> None:
        position = self.producers.load_latest(self.start, end, now_ms)
        for segment in self._segments:
            if segment.end > position:
                at = segment.position_of(max(position, segment.base))
                for batch in verified_from(segment.file, at, segment.size):
                    apply_batch(batch, self.producers, TransactionIndex())

    def _publish_end(self, end: int) -> None:
        self.end = end
        # What will follow comes from a leader that may lack other tombstones.
        self.tombstone_horizon = min(self.tombstone_horizon, end)
        self.start = min(self.start, end)
        self.synced_end = min(self.synced_end, end)
        self._set_limits(self._segments.active, self._segments.active.first_timestamp)

    # ------------------------------------------------------------------ cutting the start

    def plan_retention(self, now_ms: int, high_watermark: int) -> int:
        """The log start that retention asks for. `now_ms` comes from a `RetentionClock`, which does not jump."""
        return plan_start(self._segments, self.settings, now_ms, self.start, high_watermark)

    def apply_retention(self, new_start: int) -> None:
        """Move the start to what was planned; an active segment that is wholly below it is sealed first."""
        if new_start >= self.end:
            self.roll()
        self.advance_start(new_start)

    def advance_start(self, offset: int) -> None:
        """Records below `offset` are gone for readers (DeleteRecords). The caller keeps it at or below the HW.

        Files go with `delete_old_segments`.
        """
        if offset > self.end:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is behind the end, {self.end}")
        if offset > self.start:
            self.start = offset
            self.epochs.truncate_from_start(offset)

    def delete_old_segments(self, now_ms: int, checkpointed_start: int | None = None) -> int:
        """Let sealed segments below the start go, and their files file.delete.delay.ms later; returns how many went.

        The start must be checkpointed before, so that a deletion that is half done after a crash shows as leftovers
        below the start, never as lost records. It may have moved on since: then `checkpointed_start` is what counts.
        """
        start = self.start if checkpointed_start is None else min(self.start, checkpointed_start)
        try:
            count = self._segments.condemn_below(start, now_ms + self.settings.file_delete_delay_ms)
            if count:
                self.producers.remove_snapshots_below(self._segments.first_base)
            for removal in self.due_removals(now_ms):
                removal.sync()
            if count:
                self._unsynced.directory_changed()
        except OSError as error:
            self._fail(error)
        return count

    def due_removals(self, now_ms: int) -> list[Syncable]:
        """The files whose time has come, to be removed away from the loop; `delete_old_segments` does what is left."""
        paths = self._segments.take_due(now_ms)
        if paths:
            self._unsynced.directory_changed()
        return [Removal(self._files, paths)] if paths else []

    def scrub(self, before: Scrubbed | None = None, *, found_only: bool = False) -> Scrubbed | None:
        """Make sure of a little of what is stored, whoever wants it (I31); None after the last.

        CorruptionError when it is bad. `before` is what the last call of this pass returned. `found_only` passes over
        what this process wrote or scanned itself.
        """
        segments = list(self._segments)
        segment, position = segments[0], 0
        if before is not None:
            is_valid = before.truncation_generation == self.truncation_generation and before.segment in segments
            segment = next((each for each in segments if each.base >= before.segment.base), segments[-1])
            position = before.position if is_valid else 0
        if segment.base < self.start:  # nobody may read below, and the epochs there are forgotten
            is_partly = segment.end > self.start and self._segments.find(self.start) is segment
            position = max(position, segment.position_of(self.start)) if is_partly else segment.size
        size = min(segment.size, segment.verified_start) if found_only else segment.size
        if position < size:
            position = self._verification.look_again(segment, position)
        if position < size:
            return Scrubbed(segment, position, self.truncation_generation).prepared()
        following = segments.index(segment) + 1
        if following == len(segments):
            return None
        return Scrubbed(segments[following], 0, self.truncation_generation).prepared()

    # ------------------------------------------------------------------ compaction (R20)

    def compaction_bound(self, high_watermark: int) -> int:
        """Below it every record is committed, decided and on disk: what it replaces may go."""
        rules, bound = self._rules, self.end
        if rules.r20_compact_committed_only:
            bound = min(bound, high_watermark)
        if rules.r20_compact_decided_only:
            bound = min(bound, self.last_stable_offset(high_watermark if rules.r20_compact_committed_only else bound))
        return min(bound, self.synced_end) if rules.r20_compact_synced_only else bound

    def plan_compaction(self, now_ms: int, high_watermark: int, clean_end: int) -> Cleanable | None:
        """What compaction could do here and should; `now_ms` comes from a `RetentionClock`."""
        if not self.settings.compact_policy or self.failure is not None or self.is_deleted:
            return None
        segments = [segment for segment in self._segments if segment.end > self.start or not segment.size]
        if self._rules.r20_keep_active_segment:
            segments = [segment for segment in segments if segment is not self._segments.active]
        clean_end = clean_end if clean_end <= self.end else self.start
        return plan(segments, self.settings, now_ms, self.start, self.compaction_bound(high_watermark), clean_end)

    def compaction_job(
        self, cleanable: Cleanable, now_ms: int, keys_max: int, producers: Mapping[int, LastBatch]
    ) -> CompactionJob:
        """What a helper is told. `producers` are those that live and whose last batch may lie in it."""
        settings, segments = self.settings, cleanable.segments
        start, end = segments[0].base, segments[-1].end
        aborted = [
            entry
            for segment in self._segments.beginning_with(start)
            for entry in segment.transactions.overlapping(start, end)
        ]
        return CompactionJob(
            self.directory, segments, cleanable.dirty_start, now_ms, settings.delete_retention_ms,
            settings.segment_bytes, settings.segment_index_bytes, settings.index_interval_bytes, keys_max, producers,
            aborted, keeps_epoch_starts=self._rules.r20_keep_epoch_starts, syncs=self._rules.r20_sync_before_swap,
        )  # fmt: skip

    def begin_swap(self, cleaned: Cleaned, generation: int) -> list[Syncable] | None:
        """Take a compacted segment over: sync these, then `exchange_swap`. None when it is void.

        `generation` is the truncation generation when the job began: what was made of a log that was cut since may hold
        what it no longer has.
        """
        if self.failure is not None or self.is_deleted:
            return None
        if generation != self.truncation_generation and self._rules.r20_void_after_truncation:
            return None
        if not self._swaps.fits(cleaned.group):
            return None
        try:
            self._swaps.begin(cleaned.group)
        except (FileNotFoundError, CorruptionError):  # another helper cleared up, or this one left something else
            return None
        except OSError as error:
            self._fail(error)
        return self._names() if self._rules.r20_swap_before_delete else []

    def exchange_swap(self, now_ms: int, cleaned: Cleaned) -> list[Syncable] | None:
        """Let readers see it: sync these, then `settle_swap`. None when the log was cut meanwhile.

        From now on tombstones below its horizon may be missing, which is checkpointed already.
        """
        if self.failure is not None or self.is_deleted:
            return None
        try:
            if not self._swaps.exchange(now_ms + self.settings.file_delete_delay_ms):
                return None
            self.tombstone_horizon = max(self.tombstone_horizon, cleaned.horizon)
            self.producers.remove_snapshots_between(cleaned.group[0].base, cleaned.group[-1].end)
        except OSError as error:
            self._fail(error)
        return [*(self._names() if self._rules.r20_swap_before_delete else ()), *self.due_removals(now_ms)]

    def settle_swap(self) -> None:
        """It is the log now, with names and all."""
        if self.failure is None and not self.is_deleted:
            try:
                self._swaps.settle()
            except OSError as error:
                self._fail(error)
            self._unsynced.directory_changed()

    def _names(self) -> list[Syncable]:
        return [DirectoryEntries(self._files, self.directory)]

    # ------------------------------------------------------------------ the end of it

    def write_checkpoints(self) -> int:
        """Make the epoch history last; returns the recovery point, which may be written afterwards (R3)."""
        synced_end = self.synced_end
        self.epochs.write()
        return synced_end

    def close(self, *, clean: bool) -> None:
        """Close all files; `clean` makes everything last first, so that the next start needs no scan.

        StorageError when that failed: then no clean mark may be written.
        """
        try:
            if clean:
                if self.failure is not None:
                    raise StorageError(self.failure)
                self._sync_everything()
        finally:
            self._swaps.forget()
            self._unsynced.close()
            self._segments.retire()

    def abandon(self) -> None:
        """Close all files of a log that counts no more; nor does a sync of it that is still under way."""
        self.failure = f"{self.directory} was set aside"
        self.close(clean=False)

    def _sync_everything(self) -> None:
        try:
            self._swaps.abandon()
            self._segments.active.give_room_back()
            self._unsynced.indexes += self._segments.active.seal()
            self.producers.snapshot(self.end, sync=True)
            self.epochs.write()
            self._unsynced.directory_changed()
            plan = self.unsynced_files()
            try:
                for file in plan.files:
                    file.sync()
            finally:
                plan.release()
        except OSError as error:
            self._fail(error)
        self.synced_end = self.end

    def delete(self, token: str) -> None:
        """Remove the log for good. Renamed first, so that a crash leaves nothing that looks like a partition."""
        condemned = self.condemn(token)
        self._files.sync_directory(parent_of(condemned))
        self._files.remove_directory(condemned)

    def condemn(self, token: str) -> str:
        """Close the log and give its directory the name of one that is being deleted, which is returned.

        The name is Kafka's, `<topic>-<partition>.<token>-delete`. It lasts with the next sync of the directory above,
        and then its files may go; slices in flight stay readable.
        """
        self.is_deleted = True
        self._swaps.forget()
        self._unsynced.close()
        self._segments.retire()
        condemned = f"{parent_of(self.directory)}/{self.topic}-{self.partition}.{token}-delete"
        self._files.rename(self.directory, condemned)
        return condemned
