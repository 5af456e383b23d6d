"""What of a log is due for compaction, and the words in which a log, its node and the helper process talk about it.

Like in Kafka: a log is compacted when the part that never was (the dirty one) is large enough compared with the part
that was, or has waited for longer than max.compaction.lag.ms. R20: never above a bound that the log gives, and never
the active segment; here always whole segments.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from hightide.limits import COMPACTION_GROUP_SEGMENTS_MAX
from hightide.storage.index import OFFSET_ENTRY_BYTES, RELATIVE_OFFSET_MAX
from hightide.storage.segment import Segment
from hightide.storage.settings import LogSettings
from hightide.storage.transaction_index import AbortedTransaction


class StoredSegment(NamedTuple):
    """A sealed segment as a helper finds it on disk: offsets [base, end) in `size` bytes."""

    base: int
    end: int
    size: int


class LastBatch(NamedTuple):
    """What a live producer needs of the log: the batch that ends at `offset`, or (-1) its marker of `epoch`."""

    offset: int
    epoch: int


class Cleanable(NamedTuple):
    """Segments from the first on that may be compacted; below `dirty_start` all of it was before."""

    segments: Sequence[StoredSegment]
    dirty_start: int
    dirty_ratio: float


class CompactionJob(NamedTuple):
    """All that a helper needs to know: it reads segments by their names and writes others beside them."""

    directory: str
    segments: Sequence[StoredSegment]
    dirty_start: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    keys_max: int
    producers: Mapping[int, LastBatch]
    aborted: Sequence[AbortedTransaction]
    keeps_epoch_starts: bool = True
    syncs: bool = True


class Progressed(NamedTuple):
    """So much was read and written since the last time."""

    work_bytes: int


class Cleaned(NamedTuple):
    """A group of segments was written anew, as one, under names that end with `.cleaned`; synced.

    `horizon`: after the last tombstone or marker that is missing in the new one, 0 when none is. Without `is_changed`
    there is no new one: it would be what the old one is.
    """

    group: Sequence[StoredSegment]
    horizon: int
    is_changed: bool
    records_before: int
    records_after: int
    size: int


class Finished(NamedTuple):
    """The job is done: below `clean_end` no key is there twice."""

    clean_end: int


CompactionStep = Progressed | Cleaned | Finished


def plan(
    segments: Iterable[Segment], settings: LogSettings, now_ms: int, start: int, bound: int, clean_end: int
) -> Cleanable | None:
    """What may be compacted of these segments, which the log still may choose from; None when it is not due."""
    newest_ms = now_ms - settings.min_compaction_lag_ms
    allowed: list[Segment] = []
    for segment in segments:
        if segment.end > bound or (settings.min_compaction_lag_ms > 0 and segment.youngest_ms() > newest_ms):
            break
        allowed.append(segment)
    dirty_start = max(clean_end, start)
    dirty = [segment for segment in allowed if segment.end > dirty_start and segment.size]
    if not dirty:
        return None
    total = sum(segment.size for segment in allowed)
    ratio = sum(segment.size for segment in dirty) / total
    oldest_ms = now_ms - settings.max_compaction_lag_ms
    is_overdue = any(0 <= segment.first_timestamp < oldest_ms for segment in dirty)
    if ratio <= settings.min_cleanable_dirty_ratio and not is_overdue:
        return None
    return Cleanable([StoredSegment(each.base, each.end, each.size) for each in allowed], dirty_start, ratio)


def grouped(job: CompactionJob, end: int) -> list[list[StoredSegment]]:
    """Neighbours that fit one segment even if nothing goes, up to the one that holds the last offset below `end`."""
    groups: list[list[StoredSegment]] = []
    size = entries = 0
    for segment in job.segments:
        if segment.base >= end:
            break
        most = segment.size // max(job.index_interval_bytes, 1) + 1
        fits = (
            groups
            and len(groups[-1]) < COMPACTION_GROUP_SEGMENTS_MAX
            and size + segment.size <= job.segment_bytes
            and (entries + most) * OFFSET_ENTRY_BYTES <= job.segment_index_bytes
            and segment.end - groups[-1][0].base <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
            size, entries = size + segment.size, entries + most
        else:
            groups.append([segment])
            size, entries = segment.size, most
    return groups
