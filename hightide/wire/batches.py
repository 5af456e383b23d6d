"""Building record batches: for the broker's own logs, the client, compaction, and topics with a codec of their own."""

from collections.abc import Iterable, Sequence

from hightide.types import NO_EPOCH, NO_OFFSET, NO_PRODUCER_ID, NO_TIMESTAMP
from hightide.wire.compression import Codec, compress
from hightide.wire.records import (
    APPEND_TIME_BIT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    Record,
    patch_crc,
    read_header,
    records_of,
)

NO_SEQUENCE = -1


def build_batch(
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = NO_EPOCH,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytearray:
    """One batch with a valid CRC.

    Offsets are absolute and rise; NO_OFFSET takes the next. An `append_time` makes it a LogAppendTime batch.
    ValueError for offsets that do not rise: that is a mistake of the caller, not of a peer.
    """
    payload = bytearray()
    base_timestamp = max_timestamp = NO_TIMESTAMP
    offset, count = base_offset - 1, 0
    for record in records:
        if record.offset == NO_OFFSET:
            offset += 1
        elif record.offset > offset:
            offset = record.offset
        else:
            raise ValueError(f"offset {record.offset} after {offset}")
        if not count:
            base_timestamp = max_timestamp = record.timestamp
        elif record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
        count += 1
        _append_record(payload, record, offset - base_offset, record.timestamp - base_timestamp)
    attributes = codec | (TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0)
    if append_time != NO_TIMESTAMP:
        attributes |= APPEND_TIME_BIT
        max_timestamp = append_time
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=max(offset - base_offset, 0),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=count,
    )
    return assemble(header, payload if codec is Codec.NONE else compress(codec, payload, level))


def recompress(buffer: Buffer, codec: Codec, level: int | None = None, position: int = 0) -> bytearray:
    """The same batch in another codec (a topic whose `compression.type` is not `producer`); records stay unparsed."""
    header = read_header(buffer, position)
    payload = compress(codec, records_of(buffer, position, header), level)
    return assemble(header.replaced(attributes=header.attributes & ~CODEC_MASK | codec), payload)


def assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """Header and payload, with length and CRC filled in."""
    header = header.replaced(batch_length=HEADER_BYTES - LENGTH_OVERHEAD + len(payload))
    batch = bytearray(HEADER.pack(*header.fields))
    batch += payload
    patch_crc(batch, 0, header.batch_length)
    return batch


def _append_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    body = bytearray(1)  # the attributes of a record, unused
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    _append_headers(body, record.headers)
    append_varint(out, len(body))
    out += body


def _append_headers(out: bytearray, headers: Sequence[tuple[str, bytes | None]]) -> None:
    append_varint(out, len(headers))
    for name, value in headers:
        _append_bytes(out, name.encode("utf-8", "surrogateescape"))
        _append_bytes(out, value)


def _append_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # -1 in zigzag
        return
    append_varint(out, len(value))
    out += value


def append_varint(out: bytearray, value: int) -> None:
    value = value << 1 if value >= 0 else (~value << 1) | 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
