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

NO_BYTES = 1  # a length of -1, in zigzag

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
    """Each record in `data`, the records of the batch as `records_of` gives them. Values and headers are not read.

    One loop for speed, like `records.iterate_records`: numbers of one byte are read without a call.
    """
    count, size = header.record_count, len(data)
    if not 0 <= count <= BATCH_RECORDS_MAX or count * RECORD_BYTES_MIN > size:
        raise ProtocolError(f"{count} records in {size} bytes")
    data = bytes(data)
    base_offset, base_timestamp, last_delta = header.base_offset, header.base_timestamp, -1
    append_time = header.max_timestamp if header.has_append_time else None
    position, delta_max = 0, header.last_offset_delta
    try:
        for _ in range(count):
            start = position
            length = data[position]
            position += 1
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
            else:
                length, position = rest_of_varint(data, position, length, 5)
            end = position + length
            if length < RECORD_BYTES_MIN - 1 or end > size:
                raise ProtocolError(f"a record of {length} bytes where {size - position} are left")
            timestamp = data[position + 1]  # behind a byte of attributes, which nobody uses
            rest = position + 2
            if timestamp < 0x80:
                timestamp = (timestamp >> 1) ^ -(timestamp & 1)
            else:
                timestamp, rest = rest_of_varint(data, rest, timestamp, 10)
            delta = data[rest]
            position = rest + 1
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, position = rest_of_varint(data, position, delta, 5)
            if not last_delta < delta <= delta_max:
                raise ProtocolError(f"offset delta {delta} after {last_delta}")
            last_delta = delta
            key_length = data[position]
            position += 1
            if key_length < 0x80:
                key_length = (key_length >> 1) ^ -(key_length & 1)
            else:
                key_length, position = rest_of_varint(data, position, key_length, 5)
            key: bytes | None = None
            if key_length >= 0:
                key = data[position : position + key_length]
                position += key_length
            if position + 1 >= end:  # the length of the value and the number of headers must follow
                raise ProtocolError("a record whose fields do not fit its length")
            has_value = data[position] != NO_BYTES
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            yield _new_tuple(RecordSpan, (start, rest, end, base_offset + delta, timestamp, key, has_value))
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
        header = header.replaced(attributes=header.attributes | DELETE_HORIZON_BIT, base_timestamp=new_horizon)
    if not header.has_append_time:
        header = header.replaced(max_timestamp=max(span.timestamp for span in kept))
    header = header.replaced(record_count=len(kept))
    codec = header.codec
    return assemble(header, payload if codec is Codec.NONE else compress(codec, payload, None))


def empty_batch(header: BatchHeader, *, keeps_producer: bool = True) -> bytearray:
    """A batch without records that still says which offsets, epoch and sequences it had.

    Without its producer it belongs to no transaction either: nobody waits for the end of one because of it.
    """
    attributes = header.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT)
    if not keeps_producer:
        attributes &= ~(TRANSACTIONAL_BIT | CONTROL_BIT)
        header = header.replaced(producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH, base_sequence=NO_SEQUENCE)
    return assemble(header.replaced(attributes=attributes, base_timestamp=NO_TIMESTAMP, record_count=0), b"")


def _at_horizon(data: Buffer, kept: Sequence[RecordSpan], horizon: int) -> bytearray:
    payload = bytearray()
    for span in kept:
        body = bytearray(1)  # the attributes of a record, unused
        append_varint(body, span.timestamp - horizon)
        body += data[span.rest : span.end]
        append_varint(payload, len(body))
        payload += body
    return payload
