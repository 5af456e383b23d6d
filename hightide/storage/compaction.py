"""Compaction itself: read a log's sealed segments, write them again with the last record of each key.

Two walks. The first notes where each key of the dirty part was written last. The second writes every segment again, in
groups that fit one, and leaves out what a later record replaced. Batches keep their offsets, epoch, producer and
sequences; a batch of which nothing is left goes, unless somebody still needs its header: a live producer (the sequence
goes on behind it), the epoch history (R3: an epoch begins with it), or the segment, which ends with it, so that one
segment still begins where the one before ends. Tombstones and markers of transactions stay for delete.retention.ms
after the walk that found them alone (KIP-534).

It touches no file that is in use, and knows nothing of the log in memory: it runs in a helper process, may die at any
point, and what it leaves behind is worth nothing until the log takes it over (`swaps`). Every CRC is verified before
anything is written again (I31). In steps, so that whoever runs it can do something else in between.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress

from hightide.errors import CorruptionError, ProtocolError
from hightide.limits import COMPACTION_STEP_BYTES
from hightide.storage.cleaned_transactions import CleanedTransactions
from hightide.storage.compaction_plans import (
    Cleaned,
    CompactionJob,
    CompactionStep,
    Finished,
    Progressed,
    StoredSegment,
    grouped,
)
from hightide.storage.files import File, Files
from hightide.storage.key_offsets import KeyOffsets
from hightide.storage.scanning import BadBatchError, Chain, StoredBatch, verified_from
from hightide.storage.segment import CLEANED_SUFFIX, Segment, segment_name
from hightide.types import NO_EPOCH, NO_OFFSET
from hightide.wire.record_spans import RecordSpan, batch_of, empty_batch, record_spans
from hightide.wire.records import BatchHeader, read_header, records_of


def compact(files: Files, job: CompactionJob) -> Iterator[CompactionStep]:
    """Carry out a job. CorruptionError when stored bytes are bad, OSError when the disk fails or a file is gone."""
    remove_cleaned(files, job.directory)
    offsets = KeyOffsets(job.dirty_start, job.keys_max)
    try:
        yield from _note_keys(files, job, offsets)
        walk = _Walk(files, job, offsets)
        for group in grouped(job, offsets.end):
            yield from walk.clean(group)
    except (OSError, CorruptionError):
        with suppress(OSError):
            remove_cleaned(files, job.directory)  # a full disk has no room for what is worth nothing
        raise
    yield Finished(offsets.end)


def remove_cleaned(files: Files, directory: str) -> None:
    """Remove what an earlier helper left behind; nobody counts on it."""
    for name in files.list(directory):
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")


def _batches(files: Files, job: CompactionJob, segment: StoredSegment) -> Iterator[StoredBatch]:
    """The batches of a segment, each verified, in their order. Only the log's end of a segment counts."""
    file = files.open(f"{job.directory}/{segment_name(segment.base)}")
    chain = Chain(segment.base, NO_EPOCH, gaps=True)
    try:
        for batch in verified_from(file, 0, segment.size):
            reason = chain.admit(batch.header)
            if reason is None and chain.following > segment.end:
                reason = f"ends at {chain.following}, behind its segment's end, {segment.end}"
            if reason is not None:
                raise BadBatchError(file, batch.position, reason)
            yield batch
    finally:
        file.close()


def _note_keys(files: Files, job: CompactionJob, offsets: KeyOffsets) -> Iterator[Progressed]:
    """The first walk: the last offset of every key in the dirty part, as far as memory goes."""
    dirty = [segment for segment in job.segments if segment.end > job.dirty_start]
    transactions = CleanedTransactions(entry for entry in job.aborted if dirty and entry.last_offset >= dirty[0].base)
    walked = 0
    for segment in dirty:
        for batch in _batches(files, job, segment):
            header = batch.header
            walked += header.size
            if walked >= COMPACTION_STEP_BYTES:
                yield Progressed(walked)
                walked = 0
            is_skipped = transactions.may_discard(batch) or header.is_control
            if header.next_offset <= job.dirty_start:
                continue
            if not is_skipped:
                if not offsets.has_room_for(header.record_count):
                    return
                _put_keys(batch, offsets)
            offsets.end = header.next_offset
        offsets.end = max(offsets.end, segment.end)


def _put_keys(batch: StoredBatch, offsets: KeyOffsets) -> None:
    header = batch.header
    try:
        for span in record_spans(records_of(batch.buffer, batch.at, header), header):
            if span.key is not None:
                offsets.put(span.key, span.offset)
    except ProtocolError:
        pass  # written before the topic was compacted, when nobody looked inside: it stays as it is


class _Walk:
    """The second walk, over all groups in their order."""

    def __init__(self, files: Files, job: CompactionJob, offsets: KeyOffsets) -> None:
        self._files = files
        self._job = job
        self._offsets = offsets
        self._transactions = CleanedTransactions(job.aborted)
        self._epoch = NO_EPOCH
        self._horizon = 0
        self._before = self._after = 0
        self._is_changed = False

    def clean(self, group: Sequence[StoredSegment]) -> Iterator[CompactionStep]:
        """Write a group as one new segment beside the old ones."""
        self._horizon = self._before = self._after = 0
        self._is_changed = len(group) > 1
        path = f"{self._job.directory}/{segment_name(group[0].base)}{CLEANED_SUFFIX}"
        file = self._files.open(path, create=True)
        target = Segment(self._files, self._job.directory, group[0].base, file, CLEANED_SUFFIX)
        written: list[File] = [file]
        try:
            file.truncate(0)
            yield from self._fill(target, group)
            if self._is_changed:
                written += target.seal()
                for each in written if self._job.syncs else ():
                    each.sync()
            else:
                self._files.remove(path)
        finally:
            for each in written:
                each.close()
        yield Cleaned(group, self._horizon, self._is_changed, self._before, self._after, target.size)

    def _fill(self, target: Segment, group: Sequence[StoredSegment]) -> Iterator[Progressed]:
        end = group[-1].end
        pending, at, read = bytearray(), 0, 0
        for segment in group:
            for batch in _batches(self._files, self._job, segment):
                read += batch.header.size
                data = self._cleaned(batch, end)
                if self._transactions.kept is not None:
                    target.transactions.append(self._transactions.kept)
                if data is not None:
                    self._note(target, read_header(data))
                    pending += data
                if len(pending) >= COMPACTION_STEP_BYTES or read >= COMPACTION_STEP_BYTES:
                    at += target.file.write_at(pending, at)
                    yield Progressed(read + len(pending))
                    pending, read = bytearray(), 0
        if pending:
            target.file.write_at(pending, at)

    def _note(self, target: Segment, header: BatchHeader) -> None:
        if not target.size:
            target.first_timestamp = header.max_timestamp
        target.note(
            header.base_offset, header.last_offset, header.size, header.largest_timestamp,
            self._job.index_interval_bytes,
        )  # fmt: skip

    # ------------------------------------------------------------------ one batch

    def _cleaned(self, batch: StoredBatch, end: int) -> bytes | bytearray | memoryview | None:
        """What is left of a batch; None when nothing is."""
        header = batch.header
        begins_epoch = header.partition_leader_epoch != self._epoch
        self._epoch = header.partition_leader_epoch
        self._before += header.record_count
        can_discard = self._transactions.may_discard(batch)
        is_due = header.delete_horizon is not None and header.delete_horizon <= self._job.now_ms
        original = memoryview(batch.buffer)[batch.at : batch.at + header.size]
        if can_discard and (is_due or not header.is_control):
            if header.is_control and header.record_count:
                self._horizon = header.next_offset
        else:
            left = self._left(batch, original, is_marker=can_discard, keeps_tombstones=not is_due)
            if left is not None:
                return left
        keeps_producer = self._is_last_of_producer(header)
        is_bare = not header.record_count and (keeps_producer or not header.has_producer_id)
        is_place = header.next_offset == end or (begins_epoch and self._job.keeps_epoch_starts)
        if is_bare and (keeps_producer or is_place):
            return original
        self._is_changed = True
        return empty_batch(header, keeps_producer=keeps_producer) if keeps_producer or is_place else None

    def _left(
        self, batch: StoredBatch, original: memoryview, *, is_marker: bool, keeps_tombstones: bool
    ) -> bytearray | memoryview | None:
        """The batch with the records that stay; None when none does. `is_marker`: it may go, but not at once."""
        header = batch.header
        try:
            data = records_of(batch.buffer, batch.at, header)
            spans = list(record_spans(data, header))
        except ProtocolError:  # see _put_keys
            self._after += header.record_count
            return original
        kept = spans
        if not header.is_control:
            kept = [span for span in spans if self._stays(span, keeps_tombstones=keeps_tombstones)]
        if not kept:
            return None
        self._after += len(kept)
        needs_horizon = header.delete_horizon is None and (is_marker or self._has_tombstone(header, kept))
        if len(kept) == len(spans) and not needs_horizon:
            return original
        self._is_changed = True
        horizon = self._job.now_ms + self._job.delete_retention_ms
        return batch_of(header, data, kept, horizon if needs_horizon else None)

    def _has_tombstone(self, header: BatchHeader, kept: Sequence[RecordSpan]) -> bool:
        """Whether time begins to run for a record: not before what it deletes is gone."""
        end = self._offsets.end
        return not header.is_control and any(not span.has_value and span.offset < end for span in kept)

    def _stays(self, span: RecordSpan, *, keeps_tombstones: bool) -> bool:
        if span.offset >= self._offsets.end:
            return True
        if span.key is None or span.offset < self._offsets.newest(span.key):
            return False
        if span.has_value or keeps_tombstones:
            return True
        self._horizon = max(self._horizon, span.offset + 1)
        return False

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """Whether a live producer goes on behind this batch, so that its header must stay without its records."""
        last = self._job.producers.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.offset != NO_OFFSET:
            return header.last_offset == last.offset
        return header.is_control and header.producer_epoch == last.epoch
