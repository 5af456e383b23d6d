"""Record batches, format version 2: look at a batch in place, patch it, and iterate over what is inside.

A batch is a 61-byte header and its records, maybe compressed. Everything the broker needs for the ordinary way of a
batch is in the header, so a batch stays closed: one `struct` call reads the header, the CRC runs over the buffer
itself, and the two fields that a leader assigns (base offset, leader epoch) lie outside the CRC.
Building is in `wire.batches`, what a client may send in `wire.validation`.

Law: whatever the bytes are, the only exception out of here is `ProtocolError`.
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from librt.strings import BytesWriter, read_i16_be, read_i32_be, read_i64_be, write_i32_be, write_i64_be

from hightide.errors import ProtocolError
from hightide.limits import BATCH_RECORDS_MAX, DECOMPRESSED_BATCH_BYTES_MAX
from hightide.types import NO_OFFSET, NO_PRODUCER_ID, NO_TIMESTAMP
from hightide.wire.checksum import crc32c
from hightide.wire.compression import Codec, decompress

Buffer = bytes | bytearray | memoryview
Records = bytes | memoryview
"""A client's batch: bytes where it is small, a writable view of the receive buffer where copying would cost more."""

HEADER_BYTES: Final = 61
MAGIC: Final = 2
LENGTH_OVERHEAD: Final = 12  # base offset and the length itself, which `batch_length` does not count
BATCH_LENGTH_MIN: Final = HEADER_BYTES - LENGTH_OVERHEAD
CRC_START: Final = 21  # the CRC covers everything from the attributes on

# Where the fields lie, for whoever reads a few of them.
LENGTH_AT: Final = 8
EPOCH_AT: Final = 12
MAGIC_AT: Final = 16
CRC_AT: Final = 17
ATTRIBUTES_AT: Final = 21
LAST_OFFSET_DELTA_AT: Final = 23
BASE_TIMESTAMP_AT: Final = 27
MAX_TIMESTAMP_AT: Final = 35
PRODUCER_ID_AT: Final = 43
PRODUCER_EPOCH_AT: Final = 51
BASE_SEQUENCE_AT: Final = 53
RECORD_COUNT_AT: Final = 57

CODEC_MASK: Final = 0x07
APPEND_TIME_BIT: Final = 0x08
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40

RECORD_BYTES_MIN: Final = 7  # length, attributes, two deltas, two lengths and the number of headers, a byte each

HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_INT32: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_CONTROL_KEY: Final = Struct(">hh")
_new_tuple: Final = tuple.__new__

INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)


_FIELDS: Final = (
    "base_offset",
    "batch_length",
    "partition_leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_offset_delta",
    "base_timestamp",
    "max_timestamp",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "record_count",
)


class BatchHeader:
    """The header of one batch, as on the wire. `last` offsets are inclusive, `next_offset` is what follows.

    A class of its own and no tuple: compiled, its numbers are the machine's. Nobody changes one.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "batch_length",
        "crc",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
    )

    def __init__(
        self,
        base_offset: int,
        batch_length: int,
        partition_leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.base_offset = base_offset
        self.batch_length = batch_length
        self.partition_leader_epoch = partition_leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def fields(self) -> tuple[int, ...]:
        """All of them, in the order of the wire."""
        return (
            self.base_offset,
            self.batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        )

    def replaced(self, **fields: int) -> "BatchHeader":
        """A header with other values in some fields."""
        return BatchHeader(**{name: fields.get(name, value) for name, value in zip(_FIELDS, self.fields, strict=True)})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BatchHeader) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.fields)

    def __repr__(self) -> str:
        return f"BatchHeader{self.fields}"

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return self.batch_length + LENGTH_OVERHEAD

    @property
    def last_offset(self) -> int:
        """Offset of the last record, kept even when compaction removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """Where the next batch begins at the earliest."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> Codec:
        """How the records are compressed; ProtocolError for a codec that nobody defined."""
        return Codec.of(self.attributes & CODEC_MASK)

    @property
    def has_append_time(self) -> bool:
        """Whether every record carries the broker's time, `max_timestamp` (message.timestamp.type=LogAppendTime)."""
        return self.attributes & APPEND_TIME_BIT != 0

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Whether its records are markers for brokers rather than data."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon(self) -> int | None:
        """When compaction may drop the tombstones of this batch (KIP-534), which then is its base timestamp."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def largest_timestamp(self) -> int:
        """Of its records; NO_TIMESTAMP for a batch that compaction emptied, which keeps an old `max_timestamp`."""
        return self.max_timestamp if self.record_count else NO_TIMESTAMP

    @property
    def has_producer_id(self) -> bool:
        """Whether the batch comes from an idempotent or transactional producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap at int32 (R11)."""
        if self.base_sequence < 0:
            return self.base_sequence
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF


class Record(NamedTuple):
    """One record. An offset of NO_OFFSET in `build_batch` means: the one after the record before.

    Names of headers are UTF-8; bytes that are not stay intact as surrogate escapes, so that they can be written back.
    """

    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


class ControlType(IntEnum):
    """What a control record says, in the second half of its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_key(control_type: ControlType) -> bytes:
    """The key of a control record: version 0 and its type."""
    return _CONTROL_KEY.pack(0, control_type)


def control_type_of(key: bytes | None) -> ControlType | None:
    """The type in a control record's key; None for one from the future; ProtocolError when it is no such key."""
    if key is None or len(key) < _CONTROL_KEY.size:
        raise ProtocolError("a control record without a control key")
    version, value = _CONTROL_KEY.unpack_from(key)
    if version < 0:
        raise ProtocolError(f"control record key version {version}")
    try:
        return ControlType(value)
    except ValueError:
        return None


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, unchecked but for its presence."""
    if isinstance(buffer, bytes):
        head, at = buffer, position
    else:
        head, at = bytes(buffer[position : position + HEADER_BYTES]), 0
    if len(head) - at < HEADER_BYTES:
        raise ProtocolError("a batch header is cut short")
    crc: int = read_i32_be(head, at + CRC_AT)
    return BatchHeader(
        read_i64_be(head, at),
        read_i32_be(head, at + LENGTH_AT),
        read_i32_be(head, at + EPOCH_AT),
        head[at + MAGIC_AT],
        crc & 0xFFFFFFFF,
        read_i16_be(head, at + ATTRIBUTES_AT),
        read_i32_be(head, at + LAST_OFFSET_DELTA_AT),
        read_i64_be(head, at + BASE_TIMESTAMP_AT),
        read_i64_be(head, at + MAX_TIMESTAMP_AT),
        read_i64_be(head, at + PRODUCER_ID_AT),
        read_i16_be(head, at + PRODUCER_EPOCH_AT),
        read_i32_be(head, at + BASE_SEQUENCE_AT),
        read_i32_be(head, at + RECORD_COUNT_AT),
    )


def iterate_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each whole batch; a batch cut short at the end is left out, as in a Fetch response."""
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        header = read_batch_header(buffer, position)
        following = position + header.batch_length + LENGTH_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


def read_batch_header(buffer: Buffer, position: int) -> BatchHeader:
    """The header at `position`; ProtocolError when it is none of a batch of version 2 with a length."""
    header = read_header(buffer, position)
    if header.magic != MAGIC:
        raise ProtocolError(f"magic {header.magic} where a record batch of version 2 was expected")
    if header.batch_length < BATCH_LENGTH_MIN:
        raise ProtocolError(f"a batch length of {header.batch_length}, less than its own header")
    return header


def crc_ok(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Whether the whole batch is there and its CRC is right."""
    end = position + header.batch_length + LENGTH_OVERHEAD
    if header.batch_length < BATCH_LENGTH_MIN or end > len(buffer):
        return False
    return crc32c(memoryview(buffer)[position + CRC_START : end]) == header.crc


def head_of(batch: Buffer) -> bytes:
    """The header of a batch in a form whose numbers are cheap to read; its records may follow."""
    return batch if isinstance(batch, bytes) else bytes(batch[:HEADER_BYTES])


def patch_offsets(buffer: bytearray | memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """What a leader assigns to a batch; the CRC does not cover it."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _INT32.pack_into(buffer, position + EPOCH_AT, leader_epoch)


def placed(batch: Buffer, base_offset: int, leader_epoch: int) -> Buffer:
    """The batch with what a leader assigns to it: itself, patched, or a copy of one that can't be."""
    if not isinstance(batch, bytes):
        patch_offsets(batch, 0, base_offset, leader_epoch)
        return batch
    out = BytesWriter()
    write_i64_be(out, base_offset)
    out.write(batch[LENGTH_AT:EPOCH_AT])
    write_i32_be(out, leader_epoch)
    out.write(batch[MAGIC_AT:])
    return out.getvalue()


def patch_append_time(buffer: bytearray | memoryview, position: int, header: BatchHeader, timestamp: int) -> None:
    """Stamp the batch with the broker's time, and its CRC with the consequences."""
    _ATTRIBUTES.pack_into(buffer, position + CRC_START, header.attributes | APPEND_TIME_BIT)
    patch_max_timestamp(buffer, position, header, timestamp)


def patch_max_timestamp(buffer: bytearray | memoryview, position: int, header: BatchHeader, timestamp: int) -> None:
    """Set the largest timestamp and the CRC."""
    _MAX_TIMESTAMP.pack_into(buffer, position + MAX_TIMESTAMP_AT, timestamp)
    patch_crc(buffer, position, header.batch_length)


def patch_crc(buffer: bytearray | memoryview, position: int, batch_length: int) -> None:
    """Recompute the CRC after a change behind it."""
    end = position + batch_length + LENGTH_OVERHEAD
    _CRC.pack_into(buffer, position + CRC_AT, crc32c(memoryview(buffer)[position + CRC_START : end]))


def records_of(buffer: Buffer, position: int, header: BatchHeader) -> bytes | bytearray | memoryview:
    """The records of a batch as one uncompressed run of bytes, with a hard cap on what comes out of a codec."""
    end = position + header.batch_length + LENGTH_OVERHEAD
    if header.batch_length < BATCH_LENGTH_MIN or end > len(buffer):
        raise ProtocolError("a batch is cut short")
    payload = memoryview(buffer)[position + HEADER_BYTES : end]
    codec = header.codec
    if codec is Codec.NONE:
        return bytes(payload)
    return decompress(codec, payload, DECOMPRESSED_BATCH_BYTES_MAX)


def iterate_records(buffer: Buffer, position: int, header: BatchHeader) -> Iterator[Record]:
    """Each record of the batch. Counts, lengths, deltas and the end are all checked; the CRC is the caller's choice."""
    count = header.record_count
    data = records_of(buffer, position, header)
    if not 0 <= count <= BATCH_RECORDS_MAX or count * RECORD_BYTES_MIN > len(data):
        raise ProtocolError(f"{count} records in {len(data)} bytes")
    append_time = header.max_timestamp if header.has_append_time else None
    return _iterate(data, count, header, append_time)


def _iterate(data: Buffer, count: int, header: BatchHeader, append_time: int | None) -> Iterator[Record]:
    """One loop for speed: numbers of one byte, by far the most, are read without a call."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    last_delta, delta_max = -1, header.last_offset_delta
    position, size = 0, len(data)
    try:
        for _ in range(count):
            length = data[position]
            position += 1
            if length < 0x80:
                length = (length >> 1) ^ -(length & 1)
            else:
                length, position = rest_of_varint(data, position, length, 5)
            end = position + length
            if length < RECORD_BYTES_MIN - 1 or end > size:
                raise ProtocolError(f"a record of {length} bytes where {size - position} are left")
            # A byte of attributes, unused in format version 2, comes first.
            timestamp = data[position + 1]
            position += 2
            if timestamp < 0x80:
                timestamp = (timestamp >> 1) ^ -(timestamp & 1)
            else:
                timestamp, position = rest_of_varint(data, position, timestamp, 10)
            delta = data[position]
            position += 1
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, position = rest_of_varint(data, position, delta, 5)
            if not last_delta < delta <= delta_max:
                raise ProtocolError(f"offset delta {delta} after {last_delta} in a batch up to {delta_max}")
            last_delta = delta
            key: bytes | None
            if data[position] == 1:  # -1 in zigzag: most records have no key
                key = None
                position += 1
            else:
                key, position = _read_bytes(data, position, end)
            value, position = _read_bytes(data, position, end)
            headers: Sequence[tuple[str, bytes | None]]
            if data[position]:
                headers, position = _read_headers(data, position, end)
            else:
                headers = ()
                position += 1
            if position != end:
                raise ProtocolError("a record whose fields do not fill its length")
            timestamp = base_timestamp + timestamp if append_time is None else append_time
            if not INT64_MIN <= timestamp <= INT64_MAX:
                raise ProtocolError("a timestamp outside 64 bits")
            yield _new_tuple(Record, (base_offset + delta, timestamp, key, value, headers))
    except IndexError:
        raise ProtocolError("a record is cut short") from None
    if position != size:
        raise ProtocolError(f"{size - position} bytes behind the last record")


def _read_bytes(data: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    length = data[position]
    position += 1
    if length < 0x80:
        length = (length >> 1) ^ -(length & 1)
    else:
        length, position = rest_of_varint(data, position, length, 5)
    if length < 0:
        if length == -1:
            return None, position
        raise ProtocolError(f"a length of {length}")
    following = position + length
    if following > end:
        raise ProtocolError(f"a length of {length} with {end - position} bytes left")
    return bytes(data[position:following]), following


def _read_headers(data: Buffer, position: int, end: int) -> tuple[Sequence[tuple[str, bytes | None]], int]:
    count = data[position]
    position += 1
    if count < 0x80:
        count = (count >> 1) ^ -(count & 1)
    else:
        count, position = rest_of_varint(data, position, count, 5)
    if not 0 <= count <= (end - position) // 2:
        raise ProtocolError(f"{count} headers in {end - position} bytes")
    headers = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end)
        if key is None:
            raise ProtocolError("a header without a name")
        value, position = _read_bytes(data, position, end)
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return headers, position


def rest_of_varint(data: Buffer, position: int, first: int, bytes_max: int) -> tuple[int, int]:
    """A zigzag number whose first byte was already read and says that more follow."""
    byte = data[position]
    if byte < 0x80:  # two bytes in all, the usual case
        value = first & 0x7F | byte << 7
        return (value >> 1) ^ -(value & 1), position + 1
    value, shift = first & 0x7F, 7
    for _ in range(bytes_max - 1):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >> (32 if bytes_max == 5 else 64):
                break
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ProtocolError("a variable-length number that is too long")
