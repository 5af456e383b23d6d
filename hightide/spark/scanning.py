"""The hot loop of reading, compiled: where the fields of every record are, found without making a Python object of one.

Law: whatever the bytes are, nothing outside of `data` is read and nothing outside of the given arrays is written; what
`wire.records.iterate_records` refuses is refused here, and only that. `tests/properties` holds both to it.

A span is where a field begins and ends in the buffer. Spans rise, so that interleaved they are the offsets of one Arrow
array over the raw bytes, of which every second element is a field.
"""

from typing import Any

import numpy as np

from hightide.spark.compiling import compiled

Array = np.ndarray[Any, Any]

# What is wrong with a batch, as `scan_records` says it; `WRONG` has the sentences.
OK, RECORD_LENGTH, VARINT, DELTA, FIELD_LENGTH, HEADER_COUNT, FIELDS, TIMESTAMP, TRAILING, ROOM = range(10)
WRONG = {
    RECORD_LENGTH: "a record is longer than what is left, or too short",
    VARINT: "a variable-length number is cut short or too long",
    DELTA: "offset deltas do not rise, or pass the batch's last offset",
    FIELD_LENGTH: "a length that its record does not have",
    HEADER_COUNT: "more headers than a record has room for, or one without a name",
    FIELDS: "a record whose fields do not fill its length",
    TIMESTAMP: "a timestamp outside 64 bits",
    TRAILING: "bytes behind the last record",
    ROOM: "more records than the header says",
}

_RECORD_BYTES_MIN = 6  # behind the length: attributes, two deltas, two lengths and the number of headers
_INT64_MAX = np.int64(2**63 - 1)
_INT64_MIN = np.int64(-(2**63))


@compiled
def _varint(data: Array, position: int, end: int, bytes_max: int) -> tuple[Any, Any]:
    """A zigzag number and where it ends; a position of -1 when it is cut short or too long."""
    value = np.uint64(0)
    shift = np.uint64(0)
    for index in range(bytes_max):
        if position >= end:
            return 0, -1
        byte = np.uint64(data[position])
        position += 1
        if bytes_max == 5 and index == 4 and byte > 0x0F:
            return 0, -1
        if bytes_max == 10 and index == 9 and byte > 1:
            return 0, -1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < 0x80:
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return 0, -1


@compiled
def _skip_field(data: Array, position: int, end: int) -> tuple[int, int, bool]:
    """Start and end of a field with a length before it, and whether it is there; an end of -1 when it can't be."""
    length, position = _varint(data, position, end, 5)
    if position < 0 or length < -1 or length > end - position:
        return 0, -1, False
    if length == -1:
        return position, position, False
    return position, position + length, True


@compiled
def _skip_headers(data: Array, position: int, end: int) -> tuple[int, int]:
    """The number of headers and where they end; an end of -1 when they can't be."""
    count, position = _varint(data, position, end, 5)
    if position < 0 or count < 0 or count > (end - position) // 2:
        return 0, -1
    for _ in range(count):
        _, position, there = _skip_field(data, position, end)
        if position < 0 or not there:
            return 0, -1
        _, position, _ = _skip_field(data, position, end)
        if position < 0:
            return 0, -1
    return count, position


@compiled
def scan_records(
    data: Array,
    starts: Array,
    ends: Array,
    counts: Array,
    base_offsets: Array,
    last_deltas: Array,
    base_timestamps: Array,
    append_times: Array,
    has_append_time: Array,
    first: int,
    until: int,
    offsets: Array,
    timestamps: Array,
    timestamp_types: Array,
    key_spans: Array,
    key_nulls: Array,
    value_spans: Array,
    value_nulls: Array,
    header_positions: Array,
    header_counts: Array,
) -> tuple[int, int, int]:
    """Fill the last nine arrays with the records whose offsets are in [first, until).

    Returns what is wrong (OK), in which batch, and how many records there are.
    """
    row = 0
    for batch in range(len(starts)):
        position = starts[batch]
        size = ends[batch]
        last_delta = np.int64(-1)
        for _ in range(counts[batch]):
            length, position = _varint(data, position, size, 5)
            if position < 0:
                return VARINT, batch, row
            if length < _RECORD_BYTES_MIN or length > size - position:
                return RECORD_LENGTH, batch, row
            end = position + length
            position += 1  # a byte of attributes, unused in format version 2
            timestamp, position = _varint(data, position, end, 10)
            if position < 0:
                return VARINT, batch, row
            delta, position = _varint(data, position, end, 5)
            if position < 0:
                return VARINT, batch, row
            if delta <= last_delta or delta > last_deltas[batch]:
                return DELTA, batch, row
            last_delta = delta
            key_start, key_end, has_key = _skip_field(data, position, end)
            if key_end < 0:
                return FIELD_LENGTH, batch, row
            value_start, value_end, has_value = _skip_field(data, key_end, end)
            if value_end < 0:
                return FIELD_LENGTH, batch, row
            header_count, position = _skip_headers(data, value_end, end)
            if position < 0:
                return HEADER_COUNT, batch, row
            if position != end:
                return FIELDS, batch, row
            if has_append_time[batch]:
                timestamp = append_times[batch]
            else:
                base = base_timestamps[batch]
                if (timestamp > 0 and base > _INT64_MAX - timestamp) or (
                    timestamp < 0 and base < _INT64_MIN - timestamp
                ):
                    return TIMESTAMP, batch, row
                timestamp += base
            offset = base_offsets[batch] + delta
            if offset < first or offset >= until:
                continue
            if row >= len(offsets):
                return ROOM, batch, row
            offsets[row] = offset
            timestamps[row] = timestamp
            timestamp_types[row] = has_append_time[batch]
            key_spans[2 * row] = key_start
            key_spans[2 * row + 1] = key_end
            key_nulls[row] = not has_key
            value_spans[2 * row] = value_start
            value_spans[2 * row + 1] = value_end
            value_nulls[row] = not has_value
            header_positions[row] = value_end
            header_counts[row] = header_count
            row += 1
        if position != size:
            return TRAILING, batch, row
    return OK, 0, row


@compiled
def scan_headers(
    data: Array, positions: Array, counts: Array, name_spans: Array, value_spans: Array, value_nulls: Array
) -> None:
    """The spans of all headers of records that `scan_records` has accepted."""
    slot = 0
    size = len(data)
    for row in range(len(positions)):
        if counts[row] == 0:
            continue
        _, position = _varint(data, positions[row], size, 5)
        for _ in range(counts[row]):
            start, position, _ = _skip_field(data, position, size)
            name_spans[2 * slot] = start
            name_spans[2 * slot + 1] = position
            start, position, there = _skip_field(data, position, size)
            value_spans[2 * slot] = start
            value_spans[2 * slot + 1] = position
            value_nulls[slot] = not there
            slot += 1
