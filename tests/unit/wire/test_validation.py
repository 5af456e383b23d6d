"""What a client's batch must be: each rule with the code that Kafka gives."""

from struct import pack_into
from typing import Any

import pytest

from hightide.errors import ApiError, ErrorCode, InvalidRecordsError
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.records import (
    BatchHeader,
    Buffer,
    Record,
    crc_ok,
    iterate_records,
    patch_crc,
    patch_max_timestamp,
    patch_offsets,
    read_header,
)
from hightide.wire.validation import ProducePolicy, checked_batches, validate_for_produce

NOW = 1_700_000_000_000
DEFAULT = ProducePolicy()


def batch(*records: Record, **options: Any) -> bytearray:
    return build_batch(records or [Record(timestamp=NOW, key=b"k", value=b"v")], **options)


def changed(data: bytearray, offset: int, layout: str, value: int) -> bytearray:
    """A field overwritten, and the CRC right again."""
    pack_into(layout, data, offset, value)
    patch_crc(data, 0, len(data) - 12)
    return data


def accept(data: bytearray, policy: ProducePolicy = DEFAULT) -> tuple[Buffer, BatchHeader]:
    copied = validate_for_produce(bytes(data), policy, NOW)
    result = validate_for_produce(memoryview(data), policy, NOW)
    assert copied == result
    header = read_header(result)
    assert crc_ok(result, 0, header)
    return result, header


def refuse(data: bytes | bytearray, policy: ProducePolicy = DEFAULT) -> ApiError:
    with pytest.raises(ApiError) as copied:
        validate_for_produce(bytes(data), policy, NOW)
    with pytest.raises(ApiError) as caught:
        validate_for_produce(memoryview(data), policy, NOW)
    assert (copied.value.code, copied.value.message) == (caught.value.code, caught.value.message)
    return caught.value


@pytest.mark.parametrize("codec", list(Codec))
def test_an_ordinary_batch_passes_as_it_is(codec: Codec) -> None:
    data = batch(*[Record(timestamp=NOW + number, value=b"v") for number in range(9)], codec=codec)
    before = bytes(data)
    result, header = accept(data)
    assert isinstance(result, memoryview)
    assert result.obj is data
    assert bytes(data) == before
    assert header.record_count == 9


def test_compressed_records_stay_closed() -> None:
    data = batch(codec=Codec.ZSTD)
    data[61:] = bytes(len(data) - 61)
    patch_crc(data, 0, len(data) - 12)
    accept(data)


@pytest.mark.parametrize("size", [0, 1, 60])
def test_less_than_a_header_is_no_batch(size: int) -> None:
    assert refuse(bytes(size)).code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (-1, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_only_magic_two(magic: int, code: ErrorCode) -> None:
    assert refuse(changed(batch(), 16, ">b", magic)).code is code


def test_exactly_one_batch() -> None:
    error = refuse(batch() + batch())
    assert error.code is ErrorCode.INVALID_RECORD
    assert error.message == "exactly one record batch per partition is accepted"


def test_every_truncation_is_refused() -> None:
    data = batch()
    for size in range(len(data)):
        assert refuse(data[:size]).code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("length", [0, -1, 48])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    data = batch()
    pack_into(">i", data, 8, length)
    assert refuse(data).code is ErrorCode.CORRUPT_MESSAGE


def test_every_flipped_bit_that_matters_is_refused() -> None:
    data = batch()
    for bit in [*range(8 * 8, 12 * 8), *range(16 * 8, len(data) * 8)]:  # base offset and epoch are the leader's
        data[bit // 8] ^= 1 << bit % 8
        assert refuse(data).code in (ErrorCode.INVALID_RECORD, ErrorCode.CORRUPT_MESSAGE)
        data[bit // 8] ^= 1 << bit % 8
    accept(data)


def test_a_wrong_crc_is_a_corrupt_message() -> None:
    data = batch()
    data[-1] ^= 1
    assert refuse(data).code is ErrorCode.CORRUPT_MESSAGE


def test_max_message_bytes_to_the_byte() -> None:
    data = batch()
    accept(data, ProducePolicy(max_message_bytes=len(data)))
    assert refuse(data, ProducePolicy(max_message_bytes=len(data) - 1)).code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("offset", "layout", "value", "code"),
    [
        (23, ">i", 1, ErrorCode.INVALID_RECORD),  # last offset delta
        (23, ">i", -1, ErrorCode.INVALID_RECORD),
        (57, ">i", 0, ErrorCode.INVALID_RECORD),  # record count
        (57, ">i", 2, ErrorCode.INVALID_RECORD),
        (57, ">i", -1, ErrorCode.INVALID_RECORD),
        (0, ">q", 5, ErrorCode.INVALID_RECORD),  # base offset
        (21, ">h", 0x20, ErrorCode.INVALID_RECORD),  # control
        (21, ">h", 0x40, ErrorCode.INVALID_RECORD),  # delete horizon
        (21, ">h", 0x08, ErrorCode.INVALID_TIMESTAMP),  # append time
        (21, ">h", 0x05, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (21, ">h", 0x10, ErrorCode.INVALID_RECORD),  # transactional, without a producer id
    ],
)
def test_header_fields_must_make_sense(offset: int, layout: str, value: int, code: ErrorCode) -> None:
    assert refuse(changed(batch(), offset, layout, value)).code is code


def test_counts_must_fit_the_bytes() -> None:
    data = changed(changed(batch(), 23, ">i", 999), 57, ">i", 1000)
    assert refuse(data).code is ErrorCode.INVALID_RECORD


@pytest.mark.covers("N11")
@pytest.mark.parametrize(("epoch", "sequence"), [(-1, 0), (0, -1), (-1, -1)])
def test_a_producer_id_needs_epoch_and_sequence(epoch: int, sequence: int) -> None:
    data = batch(producer_id=5, producer_epoch=epoch, base_sequence=sequence)
    assert refuse(data).code is ErrorCode.INVALID_RECORD


def test_idempotent_and_transactional_batches_pass() -> None:
    accept(batch(producer_id=5, producer_epoch=0, base_sequence=0))
    accept(batch(producer_id=5, producer_epoch=0, base_sequence=2**31 - 1, transactional=True))


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compacted_topic_names_each_record_without_a_key(codec: Codec) -> None:
    records = [Record(timestamp=NOW, key=key, value=b"v") for key in (b"a", None, b"", None)]
    error = refuse(batch(*records, codec=codec), ProducePolicy(compacted=True))
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in error.record_errors] == [1, 3]
    accept(batch(*records[::2], codec=codec), ProducePolicy(compacted=True))


def test_a_topic_that_opens_batches_refuses_malformed_ones() -> None:
    data = batch(codec=Codec.GZIP)
    data[61:] = bytes(len(data) - 61)
    patch_crc(data, 0, len(data) - 12)
    assert refuse(data, ProducePolicy(compacted=True)).code is ErrorCode.INVALID_RECORD
    assert refuse(data, ProducePolicy(codec=Codec.LZ4)).code is ErrorCode.INVALID_RECORD
    assert refuse(data, ProducePolicy(timestamp_before_max_ms=5)).code is ErrorCode.INVALID_RECORD


def test_the_topics_own_time() -> None:
    data = batch(Record(timestamp=5, value=b"a"), Record(timestamp=NOW * 2))
    result, header = accept(data, ProducePolicy(append_time=True, timestamp_before_max_ms=1, timestamp_after_max_ms=1))
    assert header.has_append_time
    assert [record.timestamp for record in iterate_records(result, 0, header)] == [NOW, NOW]


@pytest.mark.parametrize("source", list(Codec))
@pytest.mark.parametrize("target", list(Codec))
def test_the_topics_own_codec(source: Codec, target: Codec) -> None:
    records = [Record(number, NOW, b"k", b"v" * 100) for number in range(20)]
    data = batch(*records, codec=source)
    result, header = accept(data, ProducePolicy(codec=target))
    assert header.codec is target
    assert list(iterate_records(result, 0, header)) == records
    assert (result is not data) or source is target


def test_a_batch_that_outgrows_the_limit_in_the_topics_codec() -> None:
    data = batch(Record(timestamp=NOW, value=bytes(10_000)), codec=Codec.ZSTD)
    policy = ProducePolicy(codec=Codec.NONE, max_message_bytes=5_000)
    assert refuse(data, policy).code is ErrorCode.MESSAGE_TOO_LARGE


def test_own_time_and_own_codec_together() -> None:
    result, header = accept(batch(), ProducePolicy(codec=Codec.ZSTD, append_time=True))
    assert (header.codec, header.max_timestamp) == (Codec.ZSTD, NOW)
    assert [record.timestamp for record in iterate_records(result, 0, header)] == [NOW]


def test_timestamps_of_the_future_to_the_millisecond() -> None:
    policy = ProducePolicy(timestamp_after_max_ms=1000)
    accept(batch(Record(timestamp=NOW + 1000)), policy)
    error = refuse(batch(Record(timestamp=NOW), Record(timestamp=NOW + 1001)), policy)
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_timestamps_of_the_past_to_the_millisecond() -> None:
    policy = ProducePolicy(timestamp_before_max_ms=1000)
    accept(batch(Record(timestamp=NOW - 1000)), policy)
    error = refuse(batch(Record(timestamp=NOW), Record(timestamp=NOW - 1001)), policy)
    assert isinstance(error, InvalidRecordsError)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in error.record_errors] == [1]


def test_records_without_a_timestamp_have_no_bounds() -> None:
    accept(batch(Record(value=b"v")), ProducePolicy(timestamp_before_max_ms=1, timestamp_after_max_ms=1))


def test_a_header_that_claims_the_future_is_refused_even_if_no_record_is_there() -> None:
    data = batch()
    patch_max_timestamp(data, 0, read_header(data), NOW + 10_000_000)
    error = refuse(data)
    assert error.code is ErrorCode.INVALID_TIMESTAMP
    assert not isinstance(error, InvalidRecordsError)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_missing_largest_timestamp_is_found_and_filled_in(codec: Codec) -> None:
    data = batch(Record(timestamp=NOW), Record(timestamp=NOW + 7), Record(timestamp=NOW - 7), codec=codec)
    patch_max_timestamp(data, 0, read_header(data), -1)
    _, header = accept(data)
    assert header.max_timestamp == NOW + 7


def test_a_missing_largest_timestamp_does_not_hide_the_future() -> None:
    data = batch(Record(timestamp=NOW), Record(timestamp=NOW + 10_000_000))
    patch_max_timestamp(data, 0, read_header(data), -1)
    assert refuse(data).code is ErrorCode.INVALID_TIMESTAMP


def test_the_brokers_own_batches_may_be_several_and_control() -> None:
    first = batch(control=True, base_offset=4)
    second = batch(base_offset=5, codec=Codec.LZ4)
    patch_offsets(second, 0, 5, 2)
    found = checked_batches(first + second)
    assert [(position, header.base_offset) for position, header in found] == [(0, 4), (len(first), 5)]
    assert checked_batches(b"") == []


def test_the_brokers_own_batches_are_checked_to_the_last_byte() -> None:
    whole = bytes(batch() + batch())
    for size in range(1, len(whole)):
        if size != len(whole) // 2:
            with pytest.raises(ApiError) as caught:
                checked_batches(whole[:size])
            assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    for damaged in (whole + b"\0", whole[:-1] + b"x", changed(batch(), 57, ">i", 2), changed(batch(), 23, ">i", -1)):
        with pytest.raises(ApiError):
            checked_batches(damaged)
