"""Produce requests and responses by hand, versions 3-13: the hot path in.

Decoding copies nothing but names: the records of each partition are a view of the frame, writable when the frame is,
so that a leader patches and writes them where they lie. Property-tested against `wire.messages.produce`.
Versions: 5 adds the log start, 8 errors of single records (KIP-467), 9 is flexible, 10 hints at the new leader
(KIP-951), 13 names topics by id.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i16_be, write_i32_be, write_i64_be

from hightide.errors import ErrorCode, ProtocolError
from hightide.limits import PARTITIONS_MAX
from hightide.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from hightide.wire.compact import (
    MALFORMED,
    classic_count,
    classic_nullable_string,
    classic_string,
    compact_count,
    compact_length,
    compact_nullable_string,
    compact_string,
    skip_tags,
    spend,
    uuid,
)
from hightide.wire.compression import Codec
from hightide.wire.framing import Frame
from hightide.wire.primitives import (
    INT32,
    write_compact_nullable_string,
    write_compact_string,
    write_nullable_string,
    write_string,
    write_tagged_fields,
    write_unsigned_varint,
    write_uuid,
)
from hightide.wire.records import CODEC_MASK, HEADER_BYTES, Records

VERSIONS: Final = (3, 13)
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
ZSTD_FROM: Final = 7

TopicRecords = tuple[str | bytes, list[tuple[int, memoryview | None]]]

_unpack_acks_timeout: Final = Struct(">hi").unpack_from
_unpack_int32: Final = INT32.unpack_from
_unpack_index_length: Final = Struct(">ii").unpack_from


class Produce(NamedTuple):
    """A decoded request: topics by name, or by id from version 13 on, each with (partition index, records)."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


SingleProduce = tuple[int, int, str | bytes, int, int, int]
"""acks, time-out, topic, partition index, and where in the frame the records begin and end."""
NOT_SINGLE: Final[SingleProduce] = (0, 0, b"", 0, -1, -1)


class NodeEndpoint(NamedTuple):
    """Where a leader named in a response listens (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class PartitionResult:
    """What became of one partition's records. Failing it forgets the offsets."""

    __slots__ = (
        "append_time",
        "base_offset",
        "error_code",
        "error_message",
        "index",
        "leader_epoch",
        "leader_id",
        "log_start",
        "record_errors",
    )

    def __init__(
        self, index: int, base_offset: int = NO_OFFSET, append_time: int = NO_TIMESTAMP, log_start: int = NO_OFFSET
    ) -> None:
        self.index = index
        self.base_offset = base_offset
        self.append_time = append_time
        self.log_start = log_start
        self.error_code = 0
        self.error_message: str | None = None
        self.record_errors: Sequence[tuple[int, str | None]] = ()
        # Who leads now, for a client that asked the wrong broker; versions before 10 can't say it.
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH

    def fail(
        self, code: ErrorCode, message: str | None = None, record_errors: Sequence[tuple[int, str | None]] = ()
    ) -> None:
        """Turn it into an error."""
        self.error_code = code
        self.error_message = message
        self.record_errors = record_errors
        self.base_offset = self.log_start = NO_OFFSET
        self.append_time = NO_TIMESTAMP


def decode_produce_request(body: memoryview, version: int) -> Produce:
    """The request in `body`, all of it; ProtocolError for anything else."""
    try:
        return _decode_flexible(body, version) if version >= FLEXIBLE_FROM else _decode_classic(body)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Produce request: {error}") from None


# The most common request, by far: no transaction, one topic, one partition, no tags. Each of these recognises exactly
# that with as few calls as can be and says NOT_SINGLE to anything else, which the general way takes from the start.
# They read numbers from `head`, the first bytes of the frame, which is all of it where the request is small.
# Counts and lengths travel plus one: 2 is one element.


def decode_single_produce(data: Frame, head: bytes, position: int, version: int) -> SingleProduce:
    """The request whose body begins at `position` of its frame, if it is for one partition and nothing else.

    NOT_SINGLE: ask `decode_produce_request`.
    """
    try:
        if version >= TOPIC_IDS_FROM:
            return _decode_single_by_id(data, head, position)
        if version >= FLEXIBLE_FROM:
            return _decode_single_by_name(data, head, position)
        return _decode_single_classic(data, head, position)
    except (IndexError, UnicodeDecodeError):
        return NOT_SINGLE


def _decode_single_by_id(data: Frame, head: bytes, position: int) -> SingleProduce:
    acks: int = read_i16_be(head, position + 1)
    timeout_ms: int = read_i32_be(head, position + 3)
    index: int = read_i32_be(head, position + 25)
    if head[position] or head[position + 7] != 2 or head[position + 24] != 2:
        return NOT_SINGLE
    start, end = _single_records(data, head, position + 29)
    return acks, timeout_ms, head[position + 8 : position + 24], index, start, end


def _decode_single_by_name(data: Frame, head: bytes, position: int) -> SingleProduce:
    acks: int = read_i16_be(head, position + 1)
    timeout_ms: int = read_i32_be(head, position + 3)
    length = head[position + 8]
    behind = position + 8 + length
    if head[position] or head[position + 7] != 2 or not 1 < length < 0x80 or head[behind] != 2:
        return NOT_SINGLE
    index: int = read_i32_be(head, behind + 1)
    start, end = _single_records(data, head, behind + 5)
    return acks, timeout_ms, head[position + 9 : behind].decode(), index, start, end


def _single_records(data: Frame, head: bytes, position: int) -> tuple[int, int]:
    """Where the records behind the length at `position` begin and end; (-1, -1) unless the three empty lists of tags
    follow them, and nothing else."""
    size = len(data)
    end = size - 3
    length = head[position]
    position += 1
    if length > 0x7F:
        octet = head[position]
        position += 1
        length = length & 0x7F | (octet & 0x7F) << 7
        if octet > 0x7F:
            octet = head[position]
            position += 1
            length |= (octet & 0x7F) << 14
            if octet > 0x7F:  # 2 MiB and more
                return -1, -1
    if position + length - 1 != end or not length:
        return -1, -1
    tags = head[end:] if len(head) == size else bytes(data[end:])
    return (position, end) if tags == b"\0\0\0" else (-1, -1)


def _decode_single_classic(data: Frame, head: bytes, position: int) -> SingleProduce:
    transaction_length: int = read_i16_be(head, position)
    acks: int = read_i16_be(head, position + 2)
    timeout_ms: int = read_i32_be(head, position + 4)
    topic_count: int = read_i32_be(head, position + 8)
    length: int = read_i16_be(head, position + 12)
    name = position + 14
    behind = name + length
    if transaction_length != -1 or topic_count != 1 or length < 0:
        return NOT_SINGLE
    partition_count: int = read_i32_be(head, behind)
    index: int = read_i32_be(head, behind + 4)
    records_length: int = read_i32_be(head, behind + 8)
    start = behind + 12
    end = len(data)
    if partition_count != 1 or records_length < 0 or start + records_length != end:
        return NOT_SINGLE
    return acks, timeout_ms, head[name:behind].decode(), index, start, end


def _decode_flexible(body: memoryview, version: int) -> Produce:
    end = len(body)
    transactional_id, position = compact_nullable_string(body, 0)
    acks, timeout_ms = _unpack_acks_timeout(body, position)
    topic_count, position = compact_count(body, position + 6)
    left = spend(PARTITIONS_MAX, topic_count)
    read_name = uuid if version >= TOPIC_IDS_FROM else compact_string
    topics: list[TopicRecords] = []
    for _ in range(topic_count):
        name, position = read_name(body, position)
        partition_count, position = compact_count(body, position)
        left = spend(left, partition_count)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            (index,) = _unpack_int32(body, position)
            length, position = compact_length(body, position + 4)
            if length >= 0:
                start = position
                position += length
                # The tag count behind the records is still to come.
                if position >= end:
                    raise ProtocolError(f"{length} bytes of records where {end - start} are left")
                partitions.append((index, body[start:position]))
            else:
                partitions.append((index, None))
            position = position + 1 if body[position] == 0 else skip_tags(body, position)
        position = position + 1 if body[position] == 0 else skip_tags(body, position)
        topics.append((name, partitions))
    position = skip_tags(body, position)
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the end of a Produce request")
    return Produce(transactional_id, acks, timeout_ms, topics)


def _decode_classic(body: memoryview) -> Produce:
    end = len(body)
    transactional_id, position = classic_nullable_string(body, 0)
    acks, timeout_ms = _unpack_acks_timeout(body, position)
    topic_count, position = classic_count(body, position + 6)
    left = spend(PARTITIONS_MAX, topic_count)
    topics: list[TopicRecords] = []
    for _ in range(topic_count):
        name, position = classic_string(body, position)
        partition_count, position = classic_count(body, position)
        left = spend(left, partition_count)
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partition_count):
            index, length = _unpack_index_length(body, position)
            start = position + 8
            if length >= 0:
                position = start + length
                if position > end:
                    raise ProtocolError(f"{length} bytes of records where {end - start} are left")
                partitions.append((index, body[start:position]))
            elif length == -1:
                position = start
                partitions.append((index, None))
            else:
                raise ProtocolError(f"{length} bytes of records")
        topics.append((name, partitions))
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the end of a Produce request")
    return Produce(transactional_id, acks, timeout_ms, topics)


def uses_zstd(records: Records) -> bool:
    """Whether a batch is compressed with zstd, which versions before 7 may not send (KIP-110)."""
    return len(records) >= HEADER_BYTES and records[22] & CODEC_MASK == Codec.ZSTD


def encode_single_produce_response(
    version: int,
    correlation_id: int,
    topic: str | bytes,
    index: int,
    base_offset: int,
    append_time: int,
    log_start: int,
) -> bytes:
    """The whole frame that answers one partition's records, appended without an error, unthrottled: by far the most
    common one."""
    out = BytesWriter()
    name = topic if isinstance(topic, bytes) else topic.encode()
    if version < FLEXIBLE_FROM:
        _write_single_classic(out, version, correlation_id, name, index, base_offset, append_time, log_start)
        return out.getvalue()
    # Counts and lengths travel plus one: 2 is one element, 1 is none; 0 ends the tags.
    prefix = 0 if version >= TOPIC_IDS_FROM else 1 if len(name) < 0x7F else 2
    write_i32_be(out, 46 + prefix + len(name))
    write_i32_be(out, correlation_id)
    out.append(0)
    out.append(2)
    if prefix == 1:
        out.append(len(name) + 1)
    elif prefix == 2:
        out.append((len(name) + 1) & 0x7F | 0x80)
        out.append((len(name) + 1) >> 7)
    out.write(name)
    out.append(2)
    write_i32_be(out, index)
    write_i16_be(out, 0)
    write_i64_be(out, base_offset)
    write_i64_be(out, append_time)
    write_i64_be(out, log_start)
    out.write(b"\x01\0\0\0\0\0\0\0\0")  # no errors of records, no message, two ends of tags, no throttling, the last
    return out.getvalue()


def _write_single_classic(
    out: BytesWriter,
    version: int,
    correlation_id: int,
    name: bytes,
    index: int,
    base_offset: int,
    append_time: int,
    log_start: int,
) -> None:
    write_i32_be(out, (54 if version >= 8 else 48 if version >= 5 else 40) + len(name))
    write_i32_be(out, correlation_id)
    write_i32_be(out, 1)
    write_i16_be(out, len(name))
    out.write(name)
    write_i32_be(out, 1)
    write_i32_be(out, index)
    write_i16_be(out, 0)
    write_i64_be(out, base_offset)
    write_i64_be(out, append_time)
    if version >= 5:
        write_i64_be(out, log_start)
    if version >= 8:
        write_i32_be(out, 0)
        write_i16_be(out, -1)
    write_i32_be(out, 0)


_PARTITION_3: Final = Struct(">ihqq").pack
_PARTITION_5: Final = Struct(">ihqqq").pack
_LEADER: Final = Struct(">iiB").pack


def encode_produce_response(
    version: int,
    topics: Sequence[tuple[str | bytes, Sequence[PartitionResult]]],
    throttle_ms: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """The body of any response. Hints at leaders and their endpoints are left out where a version can't say them."""
    out = bytearray()
    if version < FLEXIBLE_FROM:
        _write_classic(out, version, topics)
        out += INT32.pack(throttle_ms)
        return bytes(out)
    write_unsigned_varint(out, len(topics) + 1)
    for topic, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            write_uuid(out, topic)  # type: ignore[arg-type]
        else:
            write_compact_string(out, topic)  # type: ignore[arg-type]
        write_unsigned_varint(out, len(partitions) + 1)
        for result in partitions:
            _write_flexible_partition(out, version, result)
        out.append(0)
    out += INT32.pack(throttle_ms)
    nodes = encode_endpoints(endpoints) if version >= 10 else None
    write_tagged_fields(out, {0: nodes} if nodes else None, None)
    return bytes(out)


def encode_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytearray | None:
    """The tagged field with the addresses of leaders, the same in Produce and Fetch; None when there are none."""
    out, count = bytearray(), 0
    for endpoint in endpoints:
        count += 1
        out += INT32.pack(endpoint.node_id)
        write_compact_string(out, endpoint.host)
        out += INT32.pack(endpoint.port)
        write_compact_nullable_string(out, endpoint.rack)
        out.append(0)
    if not count:
        return None
    field = bytearray()
    write_unsigned_varint(field, count + 1)
    return field + out


def _write_classic(
    out: bytearray, version: int, topics: Sequence[tuple[str | bytes, Sequence[PartitionResult]]]
) -> None:
    out += INT32.pack(len(topics))
    for topic, partitions in topics:
        write_string(out, topic)  # type: ignore[arg-type]
        out += INT32.pack(len(partitions))
        for result in partitions:
            if version < 5:
                out += _PARTITION_3(result.index, result.error_code, result.base_offset, result.append_time)
                continue
            out += _PARTITION_5(
                result.index, result.error_code, result.base_offset, result.append_time, result.log_start
            )
            if version >= 8:
                out += INT32.pack(len(result.record_errors))
                for batch_index, message in result.record_errors:
                    out += INT32.pack(batch_index)
                    write_nullable_string(out, message)
                write_nullable_string(out, result.error_message)


def _write_flexible_partition(out: bytearray, version: int, result: PartitionResult) -> None:
    out += _PARTITION_5(result.index, result.error_code, result.base_offset, result.append_time, result.log_start)
    write_unsigned_varint(out, len(result.record_errors) + 1)
    for batch_index, message in result.record_errors:
        out += INT32.pack(batch_index)
        write_compact_nullable_string(out, message)
        out.append(0)
    write_compact_nullable_string(out, result.error_message)
    if version >= 10 and (result.leader_id, result.leader_epoch) != (-1, -1):
        out += b"\x01\x00\x09"  # one tagged field, number 0, of nine bytes
        out += _LEADER(result.leader_id, result.leader_epoch, 0)
    else:
        out.append(0)
