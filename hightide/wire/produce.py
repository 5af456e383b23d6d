"""Produce requests and responses by hand, versions 3-13: the hot path in.

Decoding copies nothing but names: the records of each partition are a view of the frame, writable when the frame is,
so that a leader patches and writes them where they lie. Property-tested against `wire.messages.produce`.
Versions: 5 adds the log start, 8 errors of single records (KIP-467), 9 is flexible, 10 hints at the new leader
(KIP-951), 13 names topics by id.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

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
from hightide.wire.records import CODEC_MASK, HEADER_BYTES

VERSIONS: Final = (3, 13)
FLEXIBLE_FROM: Final = 9
TOPIC_IDS_FROM: Final = 13
ZSTD_FROM: Final = 7

TopicRecords = tuple[str | bytes, list[tuple[int, memoryview | None]]]

_unpack_acks_timeout: Final = Struct(">hi").unpack_from
_unpack_int32: Final = INT32.unpack_from
_unpack_index_length: Final = Struct(">ii").unpack_from
_unpack_single_by_id: Final = Struct(">BhiB16sBi").unpack_from
_unpack_single_by_name: Final = Struct(">BhiBB").unpack_from
_unpack_single_classic: Final = Struct(">hhiih").unpack_from
_unpack_count_index: Final = Struct(">Bi").unpack_from
_unpack_count_index_length: Final = Struct(">iii").unpack_from
_unpack_three: Final = Struct(">3s").unpack_from


class Produce(NamedTuple):
    """A decoded request: topics by name, or by id from version 13 on, each with (partition index, records)."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicRecords]


SingleProduce = tuple[int, int, str | bytes, int, memoryview]
"""acks, time-out, topic, partition index, records."""


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
# that with as few calls as can be and returns None for anything else, which the general way takes from the start.
# Counts and lengths travel plus one: 2 is one element.


def decode_single_produce(body: memoryview, version: int) -> SingleProduce | None:
    """The request in `body` if it is for one partition and nothing else; None: ask `decode_produce_request`."""
    try:
        if version >= TOPIC_IDS_FROM:
            return _decode_single_by_id(body)
        return _decode_single_by_name(body) if version >= FLEXIBLE_FROM else _decode_single_classic(body)
    except MALFORMED:
        return None


def _decode_single_by_id(body: memoryview) -> SingleProduce | None:
    if len(body) < 33:
        return None
    no_transaction, acks, timeout_ms, topic_count, topic, partition_count, index = _unpack_single_by_id(body)
    if no_transaction or topic_count != 2 or partition_count != 2:
        return None
    records = _single_records(body, 29)
    if records is None:
        return None
    return acks, timeout_ms, topic, index, records


def _decode_single_by_name(body: memoryview) -> SingleProduce | None:
    if len(body) < 9:
        return None
    no_transaction, acks, timeout_ms, topic_count, length = _unpack_single_by_name(body)
    position = 8 + length
    if no_transaction or topic_count != 2 or not 1 < length < 0x80 or position + 9 > len(body):
        return None
    partition_count, index = _unpack_count_index(body, position)
    if partition_count != 2:
        return None
    records = _single_records(body, position + 5)
    if records is None:
        return None
    return acks, timeout_ms, str(body[9:position], "utf-8"), index, records


def _single_records(body: memoryview, position: int) -> memoryview | None:
    """The records at `position`, if nothing but the three empty lists of tags follows them."""
    end = len(body) - 3
    length = body[position]
    position += 1
    if length > 0x7F:
        octet = body[position]
        position += 1
        length = length & 0x7F | (octet & 0x7F) << 7
        if octet > 0x7F:
            octet = body[position]
            position += 1
            length |= (octet & 0x7F) << 14
            if octet > 0x7F:  # 2 MiB and more
                return None
    if position + length - 1 != end or not length or _unpack_three(body, end)[0] != b"\0\0\0":
        return None
    return body[position:end]


def _decode_single_classic(body: memoryview) -> SingleProduce | None:
    size = len(body)
    if size < 14:
        return None
    transaction_length, acks, timeout_ms, topic_count, length = _unpack_single_classic(body)
    position = 14 + length
    if transaction_length != -1 or topic_count != 1 or length < 0 or position + 12 > size:
        return None
    partition_count, index, records_length = _unpack_count_index_length(body, position)
    start = position + 12
    if partition_count != 1 or records_length < 0 or start + records_length != size:
        return None
    return acks, timeout_ms, str(body[14:position], "utf-8"), index, body[start:]


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


def uses_zstd(records: memoryview) -> bool:
    """Whether a batch is compressed with zstd, which versions before 7 may not send (KIP-110)."""
    return len(records) >= HEADER_BYTES and records[22] & CODEC_MASK == Codec.ZSTD


# One partition without an error, by far the most common answer: the fields on both sides of the topic's name.
_SINGLE_3: Final = Struct(">iihqqi").pack
_SINGLE_5: Final = Struct(">iihqqqi").pack
_SINGLE_8: Final = Struct(">iihqqqihi").pack
_SINGLE_9: Final = Struct(">BihqqqBBBBiB").pack
_SINGLE_13: Final = Struct(">B16sBihqqqBBBBiB").pack
_ONE_AND_INT16: Final = Struct(">ih").pack


def encode_single_produce_response(
    version: int, topic: str | bytes, index: int, base_offset: int, append_time: int, log_start: int
) -> bytes:
    """The body of the response to one partition's records, appended without an error, unthrottled."""
    if version >= FLEXIBLE_FROM:
        # Counts and lengths travel plus one: 2 is one element, 1 is none; 0 ends the tags.
        if type(topic) is bytes:
            return _SINGLE_13(2, topic, 2, index, 0, base_offset, append_time, log_start, 1, 0, 0, 0, 0, 0)
        out = bytearray(b"\x02")
        write_compact_string(out, topic)  # type: ignore[arg-type]
        out += _SINGLE_9(2, index, 0, base_offset, append_time, log_start, 1, 0, 0, 0, 0, 0)
        return bytes(out)
    name = topic.encode()  # type: ignore[union-attr]
    head = _ONE_AND_INT16(1, len(name)) + name
    if version >= 8:
        return head + _SINGLE_8(1, index, 0, base_offset, append_time, log_start, 0, -1, 0)
    if version >= 5:
        return head + _SINGLE_5(1, index, 0, base_offset, append_time, log_start, 0)
    return head + _SINGLE_3(1, index, 0, base_offset, append_time, 0)


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
