"""Where the records of a batch lie, and the batch again with some of them: what compaction asks of a batch.

Records that stay are copied as they are, headers and all: base offset and base timestamp of the batch stay, so their
deltas do too. Only a new delete horizon (KIP-534), which takes the place of the base timestamp, makes the times be
written anew.

Law: whatever the bytes are, the only exception out of here is `ProtocolError`.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hightide.errors import ProtocolError
from hightide.limits import BATCH_RECORDS_MAX
from hightide.types import NO_EPOCH, NO_PRODUCER_ID, NO_TIMESTAMP
from hightide.wire.batches import NO_SEQUENCE, append_varint, assemble
from hightide.wire.compression import Codec, compress
from hightide.wire.records import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    RECORD_BYTES_MIN,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    rest_of_varint,
)

_new_tuple = tuple.__new__


class RecordSpan(NamedTuple):
    """One record in the uncompressed records of its batch: bytes [start, end), the offset's delta at `rest`."""

    start: int
    rest: int
    end: int
    offset: int
    timestamp: int
    key: bytes | None
    has_value: bool


def record_spans(data: Buffer, header: BatchHeader) -> Iterator[RecordSpan]:
    """Each record in `data`, the records of the batch as `records_of` gives them. Values and headers are not read."""
    count, size = header.record_count, len(data)
    if not 0 <= count <= BATCH_RECORDS_MAX or count * RECORD_BYTES_MIN > size:
        raise ProtocolError(f"{count} records in {size} bytes")
    base_offset, base_timestamp, last_delta = header.base_offset, header.base_timestamp, -1
    append_time = header.max_timestamp if header.has_append_time else None
    position = 0
    try:
        for _ in range(count):
            start = position
            length, position = _varint(data, position, 5)
            end = position + length
            if length < RECORD_BYTES_MIN - 1 or end > size:
                raise ProtocolError(f"a record of {length} bytes where {size - position} are left")
            timestamp, rest = _varint(data, position + 1, 10)
            delta, position = _varint(data, rest, 5)
            if not last_delta < delta <= header.last_offset_delta:
                raise ProtocolError(f"offset delta {delta} after {last_delta}")
            last_delta = delta
            key_length, position = _varint(data, position, 5)
            key: bytes | None = None
            if key_length >= 0:
                key = bytes(data[position : position + key_length])
                position += key_length
            value_length, position = _varint(data, position, 5)
            if position + max(value_length, 0) >= end:  # a count of headers follows
                raise ProtocolError("a record whose fields do not fit its length")
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            yield _new_tuple(RecordSpan, (start, rest, end, base_offset + delta, timestamp, key, value_length >= 0))
            position = end
    except IndexError:
        raise ProtocolError("a record is cut short") from None
    if position != size:
        raise ProtocolError(f"{size - position} bytes behind the last record")


def batch_of(
    header: BatchHeader, data: Buffer, kept: Sequence[RecordSpan], new_horizon: int | None = None
) -> bytearray:
    """The batch with these of its records, in its own codec. Offsets, producer and sequence stay what they were.

    `new_horizon`: when its tombstones may go, for a batch that has no such time yet.
    """
    if new_horizon is None:
        payload = bytearray().join(bytes(data[span.start : span.end]) for span in kept)
    else:
        payload = _at_horizon(data, kept, new_horizon)
        header = header._replace(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=new_horizon)
    if not header.has_append_time:
        header = header._replace(max_timestamp=max(span.timestamp for span in kept))
    header = header._replace(record_count=len(kept))
    codec = header.codec
    return assemble(header, payload if codec is Codec.NONE else compress(codec, payload, None))


def empty_batch(header: BatchHeader, *, keeps_producer: bool = True) -> bytearray:
    """A batch without records that still says which offsets, epoch and sequences it had.

    Without its producer it belongs to no transaction either: nobody waits for the end of one because of it.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    if not keeps_producer:
        attributes &= ~(TRANSACTIONAL_BIT | CONTROL_BIT)
        header = header._replace(producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH, base_sequence=NO_SEQUENCE)
    return assemble(header._replace(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _at_horizon(data: Buffer, kept: Sequence[RecordSpan], horizon: int) -> bytearray:
    payload = bytearray()
    for span in kept:
        body = bytearray(1)  # the attributes of a record, unused
        append_varint(body, span.timestamp - horizon)
        body += data[span.rest : span.end]
        append_varint(payload, len(body))
        payload += body
    return payload


def _varint(data: Buffer, position: int, bytes_max: int) -> tuple[int, int]:
    value = data[position]
    if value < 0x80:
        return (value >> 1) ^ -(value & 1), position + 1
    return rest_of_varint(data, position + 1, value, bytes_max)
