"""What a client's batch must be before a leader appends it.

The ordinary batch stays closed: everything here is read from its header and one CRC pass, and compressed records pass
through as they are (KAFKA.md, fact 8). A batch is opened only when the topic asks a question that the header cannot
answer: compaction (keys), another codec, a lower bound on timestamps; or when its header contradicts itself.

Timestamps: `max_timestamp` bounds all records from above, so message.timestamp.after.max.ms needs the header only.
Nothing in a header bounds them from below, so message.timestamp.before.max.ms opens the batch when it is set.
A `max_timestamp` below the base timestamp (older Sarama sends -1) is replaced by the true one, as Kafka does;
one that is merely too small for a later record is believed.

Errors are `ApiError`s with the codes Kafka gives, and INVALID_RECORD names each bad record (KIP-467).
"""

from collections.abc import Callable
from typing import Final

from librt.strings import read_i16_be, read_i32_be, read_i64_be

from hightide.errors import ApiError, ErrorCode, InvalidRecordsError, ProtocolError
from hightide.limits import SMALL_FRAME_BYTES_MAX
from hightide.types import NO_TIMESTAMP
from hightide.wire.batches import recompress
from hightide.wire.checksum import crc32c
from hightide.wire.compression import Codec
from hightide.wire.records import (
    APPEND_TIME_BIT,
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    BATCH_LENGTH_MIN,
    CODEC_MASK,
    CONTROL_BIT,
    CRC_AT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    INT64_MAX,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    LENGTH_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_BYTES_MIN,
    RECORD_COUNT_AT,
    TRANSACTIONAL_BIT,
    BatchHeader,
    Buffer,
    Record,
    Records,
    head_of,
    iterate_records,
    patch_append_time,
    patch_max_timestamp,
    read_batch_header,
    read_header,
)

_CODEC_LAST: Final = 4  # Codec.ZSTD, without asking the enumeration for every batch
_BROKER_BITS: Final = APPEND_TIME_BIT | CONTROL_BIT | DELETE_HORIZON_BIT


class ProducePolicy:
    """What a topic's settings ask of a batch; made once per change of settings.

    `codec` None is `compression.type=producer`.
    """

    __slots__ = (
        "append_time",
        "codec",
        "compacted",
        "level",
        "max_message_bytes",
        "opens",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(
        self,
        *,
        max_message_bytes: int = 1_048_588,
        compacted: bool = False,
        codec: Codec | None = None,
        level: int | None = None,
        append_time: bool = False,
        timestamp_before_max_ms: int = INT64_MAX,
        timestamp_after_max_ms: int = 3_600_000,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.compacted = compacted
        self.codec = codec
        self.level = level
        self.append_time = append_time
        # A broker's own time is never out of bounds.
        self.timestamp_before_max_ms = INT64_MAX if append_time else timestamp_before_max_ms
        self.timestamp_after_max_ms = INT64_MAX if append_time else timestamp_after_max_ms
        # Whether the header alone cannot answer; asked once per batch.
        self.opens = compacted or append_time or codec is not None or self.timestamp_before_max_ms < INT64_MAX


def validate_for_produce(data: Records, policy: ProducePolicy, now_ms: int) -> Buffer:
    """Check the one batch that a client sent for a partition; ApiError when it may not be appended.

    Returns the bytes to append: `data` itself, or what became of it where the topic uses the broker's time or its own
    codec. Offsets and epoch are still the client's.
    """
    size = len(data)
    if size < HEADER_BYTES:
        raise ApiError(ErrorCode.INVALID_RECORD, f"{size} bytes are no record batch")
    head = head_of(data)
    magic = head[MAGIC_AT]
    length: int = read_i32_be(head, LENGTH_AT)
    if magic != MAGIC:
        # Older formats were once valid, so Kafka names them politely; a higher magic is noise to it.
        code = ErrorCode.INVALID_RECORD if magic < MAGIC else ErrorCode.CORRUPT_MESSAGE
        raise ApiError(code, f"magic {magic}: only record batches of version 2 are accepted")
    if length + LENGTH_OVERHEAD != size:
        raise _wrong_length(length, size)
    if size > policy.max_message_bytes:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {size} bytes, {policy.max_message_bytes} are allowed")
    signed_crc: int = read_i32_be(head, CRC_AT)
    if crc32c(head[CRC_START:] if isinstance(data, bytes) else data[CRC_START:]) != signed_crc & 0xFFFFFFFF:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, "the batch does not match its CRC")
    base_offset: int = read_i64_be(head, 0)
    delta: int = read_i32_be(head, LAST_OFFSET_DELTA_AT)
    count: int = read_i32_be(head, RECORD_COUNT_AT)
    if base_offset or count <= 0 or count != delta + 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"base offset {base_offset}, last offset delta {delta}, {count} records: these do not belong together",
        )
    attributes: int = read_i16_be(head, ATTRIBUTES_AT)
    codec = attributes & CODEC_MASK
    if attributes & _BROKER_BITS or codec > _CODEC_LAST:
        raise _wrong_attributes(attributes)
    if not codec and count * RECORD_BYTES_MIN > size - HEADER_BYTES:
        raise ApiError(ErrorCode.INVALID_RECORD, f"{count} records in {size - HEADER_BYTES} bytes")
    producer: int = read_i64_be(head, PRODUCER_ID_AT)
    if producer >= 0:
        epoch: int = read_i16_be(head, PRODUCER_EPOCH_AT)
        sequence: int = read_i32_be(head, BASE_SEQUENCE_AT)
        if sequence < 0 or epoch < 0:
            raise ApiError(
                ErrorCode.INVALID_RECORD, f"epoch {epoch} and sequence {sequence} with producer id {producer}"
            )
    elif attributes & TRANSACTIONAL_BIT:
        raise ApiError(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
    base_time: int = read_i64_be(head, BASE_TIMESTAMP_AT)
    max_time: int = read_i64_be(head, MAX_TIMESTAMP_AT)
    if policy.opens or max_time < base_time or max_time - now_ms > policy.timestamp_after_max_ms:
        return _look_inside(memoryview(bytearray(data)) if isinstance(data, bytes) else data, policy, now_ms)
    return data


def checked_batches(data: memoryview | bytes | bytearray) -> list[tuple[int, BatchHeader]]:
    """Position and header of each batch in what the broker itself or a leader wrote: whole, CRC-valid, nothing left.

    For the broker's own batches, several and control batches allowed, and for followers (R21).
    """
    batches: list[tuple[int, BatchHeader]] = []
    size = len(data)
    copied = bytes(data) if size <= SMALL_FRAME_BYTES_MAX else b""
    view = memoryview(data)
    position = 0
    try:
        while position + HEADER_BYTES <= size:
            header = read_batch_header(copied or view, position)
            end = position + header.batch_length + LENGTH_OVERHEAD
            if end > size:
                break
            start = position + CRC_START
            if crc32c(copied[start:end] if copied else view[start:end]) != header.crc:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch at byte {position} does not match its CRC")
            delta = header.last_offset_delta
            if delta < 0 or not 0 <= header.record_count <= delta + 1:
                raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"the batch at byte {position} counts wrongly")
            batches.append((position, header))
            position = end
    except ProtocolError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if position != size:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"{size - position} bytes behind the last whole batch")
    return batches


def _look_inside(data: memoryview, policy: ProducePolicy, now_ms: int) -> memoryview | bytearray:
    result: memoryview | bytearray = data
    header = read_header(data)
    try:
        if policy.compacted:
            _refuse(data, header, ErrorCode.INVALID_RECORD, "a compacted topic takes no record without a key", _keyless)
        if policy.append_time:
            patch_append_time(data, 0, header, now_ms)
        else:
            _check_timestamps(data, header, policy, now_ms)
        header = read_header(data)
        if policy.codec is not None and policy.codec != header.codec:
            result = recompress(data, policy.codec, policy.level)
            header = read_header(result)
    except ProtocolError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
    if header.size > policy.max_message_bytes:
        raise ApiError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"{header.size} bytes in the topic's codec, {policy.max_message_bytes} are allowed",
        )
    return result


def _check_timestamps(data: memoryview, header: BatchHeader, policy: ProducePolicy, now_ms: int) -> None:
    oldest = now_ms - policy.timestamp_before_max_ms
    newest = now_ms + policy.timestamp_after_max_ms
    reason = f"timestamps must lie between {oldest} and {newest}"

    def out_of_bounds(record: Record) -> bool:
        return record.timestamp != NO_TIMESTAMP and not oldest <= record.timestamp <= newest

    if policy.timestamp_before_max_ms < INT64_MAX or header.max_timestamp > newest:
        _refuse(data, header, ErrorCode.INVALID_TIMESTAMP, reason, out_of_bounds)
    if header.max_timestamp > newest:
        raise ApiError(ErrorCode.INVALID_TIMESTAMP, reason)
    if header.max_timestamp < header.base_timestamp:
        max_timestamp = max(record.timestamp for record in iterate_records(data, 0, header))
        if max_timestamp > newest:
            _refuse(data, header, ErrorCode.INVALID_TIMESTAMP, reason, out_of_bounds)
        patch_max_timestamp(data, 0, header, max_timestamp)


def _refuse(
    data: memoryview, header: BatchHeader, code: ErrorCode, reason: str, is_bad: Callable[[Record], bool]
) -> None:
    """Raise when a record is bad, naming each such record by its index in the batch."""
    bad = [(index, reason) for index, record in enumerate(iterate_records(data, 0, header)) if is_bad(record)]
    if bad:
        raise InvalidRecordsError(code, f"{len(bad)} of {header.record_count} records: {reason}", bad)


def _keyless(record: Record) -> bool:
    return record.key is None


def _wrong_length(length: int, size: int) -> ApiError:
    if length < BATCH_LENGTH_MIN:
        return ApiError(ErrorCode.CORRUPT_MESSAGE, f"a batch length of {length}, less than its own header")
    if length + LENGTH_OVERHEAD > size:
        return ApiError(ErrorCode.INVALID_RECORD, f"the batch is cut short: {size} bytes of {length + LENGTH_OVERHEAD}")
    return ApiError(ErrorCode.INVALID_RECORD, "exactly one record batch per partition is accepted")


def _wrong_attributes(attributes: int) -> ApiError:
    if attributes & CONTROL_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if attributes & APPEND_TIME_BIT:
        return ApiError(ErrorCode.INVALID_TIMESTAMP, "producers may not set the timestamp type to LogAppendTime")
    if attributes & DELETE_HORIZON_BIT:
        return ApiError(ErrorCode.INVALID_RECORD, "clients may not set a delete horizon")
    return ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {attributes & CODEC_MASK}")
