"""Record batches: what we build we read, others read what we build, we read what others build, damage is noticed."""

from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AiokafkaBatch
from aiokafka.record.default_records import DefaultRecordBatchBuilder as AiokafkaBuilder
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaPythonBatch
from kafka.record.default_records import DefaultRecordBatchBuilder as KafkaPythonBuilder

from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec, decompress
from hightide.wire.records import (
    Record,
    crc_ok,
    iterate_records,
    patch_append_time,
    patch_crc,
    patch_offsets,
    read_header,
)
from hightide.wire.validation import ProducePolicy, checked_batches, validate_for_produce

NOW = 1_700_000_000_000

# What kafka-python can compress without further packages.
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP]

header_lists = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
contents = st.none() | st.binary(max_size=20) | st.just(b"v" * 5_000)


@st.composite
def record_lists(draw: st.DrawFn, *, oldest: int = -(2**62), newest: int = 2**62 - 1) -> list[Record]:
    """Timestamps lie less than 2**63 apart: the format has them as differences of 64 bits."""
    timestamps = st.integers(oldest, newest)
    fields = st.tuples(timestamps, contents, contents, header_lists)
    drawn = draw(st.lists(fields, min_size=1, max_size=8))
    return [Record(index, *values) for index, values in enumerate(drawn)]


def plain(record: Any) -> tuple[Any, ...]:
    """A record as plain values, whoever read it."""
    key, value = record.key, record.value
    return (
        record.offset,
        record.timestamp,
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        [(name, None if content is None else bytes(content)) for name, content in record.headers],
    )


def ours(batch: Any) -> list[tuple[Any, ...]]:
    header = read_header(batch)
    assert header.size == len(batch)
    assert crc_ok(batch, 0, header)
    return [plain(record) for record in iterate_records(batch, 0, header)]


@settings(max_examples=100, deadline=None)
@given(
    records=record_lists(),
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 2**60),
    producer=st.none() | st.tuples(st.integers(0, 2**60), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
)
def test_what_is_built_is_read(
    records: list[Record], codec: Codec, base_offset: int, producer: tuple[int, int, int] | None
) -> None:
    producer_id, epoch, sequence = producer or (-1, -1, -1)
    shifted = [record._replace(offset=base_offset + record.offset) for record in records]
    batch = build_batch(
        shifted, base_offset=base_offset, codec=codec,
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence,
    )  # fmt: skip
    assert ours(batch) == [plain(record) for record in shifted]
    header = read_header(batch)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (producer_id, epoch, sequence)


@settings(max_examples=60, deadline=None)
@given(records=record_lists(oldest=0, newest=2**40), codec=st.sampled_from(Codec))
def test_aiokafka_reads_what_we_build(records: list[Record], codec: Codec) -> None:
    batch = AiokafkaBatch(bytes(build_batch(records, codec=codec)))
    assert batch.validate_crc()
    assert [plain(record) for record in batch] == [plain(record) for record in records]


@settings(max_examples=60, deadline=None)
@given(records=record_lists(oldest=0, newest=2**40), codec=st.sampled_from(KAFKA_PYTHON_CODECS))
def test_kafka_python_reads_what_we_build(records: list[Record], codec: Codec) -> None:
    batch = KafkaPythonBatch(bytes(build_batch(records, codec=codec)))
    assert batch.validate_crc()
    assert [plain(record) for record in batch] == [plain(record) for record in records]


def fill(builder: Any, records: list[Record]) -> bytearray:
    for record in records:
        builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
    return bytearray(builder.build())


def view(batch: bytes | bytearray) -> memoryview:
    return memoryview(bytearray(batch))


@settings(max_examples=60, deadline=None)
@given(records=record_lists(oldest=0, newest=NOW), codec=st.sampled_from(Codec))
def test_we_read_what_aiokafka_builds(records: list[Record], codec: Codec) -> None:
    builder = AiokafkaBuilder(
        magic=2, compression_type=codec, is_transactional=0,
        producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=10**6,
    )  # fmt: skip
    batch = fill(builder, records)
    assert ours(batch) == [plain(record) for record in records]
    validate_for_produce(memoryview(batch), ProducePolicy(), NOW)
    if read_header(batch).codec is Codec.NONE:
        assert batch == build_batch(records)


@settings(max_examples=60, deadline=None)
@given(records=record_lists(oldest=0, newest=NOW), codec=st.sampled_from(KAFKA_PYTHON_CODECS))
def test_we_read_what_kafka_python_builds(records: list[Record], codec: Codec) -> None:
    builder = KafkaPythonBuilder(
        magic=2, compression_type=codec, is_transactional=True,
        producer_id=7, producer_epoch=3, base_sequence=11, batch_size=10**6,
    )  # fmt: skip
    batch = fill(builder, records)
    assert ours(batch) == [plain(record) for record in records]
    validate_for_produce(memoryview(batch), ProducePolicy(), NOW)
    if read_header(batch).codec is Codec.NONE:
        same = build_batch(records, transactional=True, producer_id=7, producer_epoch=3, base_sequence=11)
        patch_offsets(same, 0, 0, read_header(batch).partition_leader_epoch)
        assert batch == same


@settings(max_examples=60, deadline=None)
@given(
    records=record_lists(),
    codec=st.sampled_from(Codec),
    base_offset=st.integers(0, 2**62),
    epoch=st.integers(0, 2**31 - 1),
    append_time=st.none() | st.integers(0, 2**60),
)
def test_patching_keeps_a_batch_valid(
    records: list[Record], codec: Codec, base_offset: int, epoch: int, append_time: int | None
) -> None:
    batch = build_batch(records, codec=codec)
    view = memoryview(batch)
    patch_offsets(view, 0, base_offset, epoch)
    if append_time is not None:
        patch_append_time(view, 0, read_header(view), append_time)
    header = read_header(batch)
    assert (header.base_offset, header.partition_leader_epoch, header.codec) == (base_offset, epoch, codec)
    assert ours(batch) == [
        plain(
            record._replace(
                offset=base_offset + record.offset, timestamp=record.timestamp if append_time is None else append_time
            )
        )
        for record in records
    ]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), records=record_lists(), codec=st.sampled_from(Codec))
def test_damage_is_refused_at_the_door(data: st.DataObject, records: list[Record], codec: Codec) -> None:
    batch = build_batch(records, codec=codec)
    policy = ProducePolicy(timestamp_after_max_ms=2**63)
    if data.draw(st.booleans()):
        damaged = batch[: data.draw(st.integers(0, len(batch) - 1))]
    else:
        # The epoch is the leader's to write, and the base offset is refused unless it is 0.
        position = data.draw(st.integers(0, 11) | st.integers(16, len(batch) - 1))
        damaged = bytearray(batch)
        damaged[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ApiError) as caught:
        validate_for_produce(view(damaged) if data.draw(st.booleans()) else bytes(damaged), policy, NOW)
    assert caught.value.code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.MESSAGE_TOO_LARGE)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), records=record_lists(), codec=st.sampled_from(Codec))
def test_damage_with_a_right_crc_is_read_or_refused_and_nothing_else(
    data: st.DataObject, records: list[Record], codec: Codec
) -> None:
    batch = build_batch(records, codec=codec)
    for _ in range(data.draw(st.integers(1, 3))):
        batch[data.draw(st.integers(21, len(batch) - 1))] = data.draw(st.integers(0, 255))
    patch_crc(batch, 0, len(batch) - 12)
    header = read_header(batch)
    try:
        found = list(iterate_records(batch, 0, header))
    except ProtocolError:
        found = []
    offsets = [record.offset for record in found]
    assert offsets == sorted(set(offsets))
    opening = ProducePolicy(compacted=True, codec=Codec.NONE, timestamp_before_max_ms=2**61)
    for policy in (ProducePolicy(), opening):
        try:
            result = validate_for_produce(view(batch) if data.draw(st.booleans()) else bytes(batch), policy, NOW)
        except ApiError:
            continue
        accepted = read_header(result)
        assert crc_ok(result, 0, accepted)
        assert accepted.record_count == accepted.last_offset_delta + 1


@settings(max_examples=200, deadline=None)
@given(junk=st.binary(min_size=1, max_size=200), codec=st.sampled_from(Codec))
def test_junk_is_refused(junk: bytes, codec: Codec) -> None:
    with pytest.raises(ApiError):
        validate_for_produce(memoryview(junk), ProducePolicy(), NOW)
    with pytest.raises(ApiError):
        checked_batches(junk)
    with pytest.raises(ProtocolError):
        list(iterate_records(junk, 0, read_header(junk)))
    try:
        length = len(decompress(codec, junk, 1000))
    except ProtocolError:
        length = 0
    assert length <= 1000
