"""Finding records by time: the first at or after a timestamp, and the youngest of all.

Times come from clients, so they need not rise with the offsets: a time index holds their running maximum.
"""

from collections.abc import Iterable

from hightide.storage.scanning import headers_from
from hightide.storage.segment import Segment
from hightide.storage.verification import Verification
from hightide.types import NO_OFFSET, NO_TIMESTAMP
from hightide.wire.records import BatchHeader, Record, iterate_records

Found = tuple[int, int, int]  # offset, timestamp, leader epoch


def first_at_or_after(
    segments: Iterable[Segment], timestamp: int, start: int, end: int, verification: Verification
) -> Found | None:
    """The first record in [start, end) that is not older than `timestamp`."""
    for segment in segments:
        if segment.end <= start or segment.max_timestamp < timestamp:
            continue
        entry = segment.times.before(timestamp)
        behind = segment.base if entry is None else segment.base + entry[1] + 1
        from_position = segment.position_of(max(behind, start, segment.base))
        for position, header in headers_from(segment.file, from_position, segment.size):
            if header.base_offset >= end:
                return None
            if header.max_timestamp >= timestamp:
                verification.verify(segment, position, position + header.size)
                record = _first_record(segment, position, header, timestamp, start)
                if record is not None:
                    epoch = header.partition_leader_epoch
                    return (record.offset, record.timestamp, epoch) if record.offset < end else None
    return None


def youngest(segments: Iterable[Segment], start: int, end: int, verification: Verification) -> Found | None:
    """The record in [start, end) with the largest timestamp, the first of several."""
    best_timestamp, best_offset, best_segment = NO_TIMESTAMP, NO_OFFSET, None
    for segment in segments:
        if segment.end > start and segment.base < end and segment.max_timestamp > best_timestamp:
            timestamp, offset = _youngest_batch(segment, start, end)
            if timestamp > best_timestamp:
                best_timestamp, best_offset, best_segment = timestamp, offset, segment
    if best_segment is None:
        return None
    position = best_segment.position_of(best_offset)
    header = best_segment.batch_at(position)
    verification.verify(best_segment, position, position + header.size)
    record = _first_record(best_segment, position, header, best_timestamp, start)
    if record is None or record.offset >= end:
        return None
    return record.offset, record.timestamp, header.partition_leader_epoch


def _youngest_batch(segment: Segment, start: int, end: int) -> tuple[int, int]:
    """Timestamp and last offset of the youngest batch among those in [start, end)."""
    if start <= segment.max_timestamp_offset < end:
        return segment.max_timestamp, segment.max_timestamp_offset
    timestamp, offset = NO_TIMESTAMP, NO_OFFSET
    position = segment.position_of(max(start, segment.base))
    for known, relative in zip(reversed(segment.times.timestamps), reversed(segment.times.relatives), strict=True):
        if start <= segment.base + relative < end:
            timestamp, offset = known, segment.base + relative
            position = segment.position_of(offset)
            break
    for _, header in headers_from(segment.file, position, segment.position_of(end)):
        if header.largest_timestamp > timestamp:
            timestamp, offset = header.largest_timestamp, header.last_offset
    return timestamp, offset


def _first_record(segment: Segment, position: int, header: BatchHeader, timestamp: int, start: int) -> Record | None:
    """The first record of a batch from `start` on that is not older."""
    for record in iterate_records(segment.file.read_at(position, header.size), 0, header):
        if record.timestamp >= timestamp and record.offset >= start:
            return record
    return None
