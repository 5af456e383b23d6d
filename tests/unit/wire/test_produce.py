"""The hand-written Produce codec: what it leaves in place, and the common cases; tests/properties compares the rest."""

import pytest

from hightide.errors import ErrorCode, ProtocolError
from hightide.limits import PARTITIONS_MAX
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.framing import Frame, head_of_frame
from hightide.wire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from hightide.wire.primitives import write_unsigned_varint
from hightide.wire.produce import (
    NodeEndpoint,
    PartitionResult,
    Produce,
    decode_produce_request,
    decode_single_produce,
    encode_produce_response,
    encode_single_produce_response,
    uses_zstd,
)
from hightide.wire.records import Record

VERSIONS = range(3, 14)
TOPIC_ID = bytes(range(16))


def topic_of(version: int) -> str | bytes:
    return TOPIC_ID if version >= 13 else "topic"


def request(version: int, *records: bytes | None, transactional_id: str | None = None) -> memoryview:
    partitions = [PartitionProduceData(index=index + 3, records=data) for index, data in enumerate(records)]
    message = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[TopicProduceData(name="topic", topic_id=TOPIC_ID, partition_data=partitions)],
    )
    return memoryview(bytearray(message.encode(version)))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 16_382, 16_384, 2**21 - 1, 2**21])
def test_one_partition(version: int, size: int) -> None:
    records = memoryview(bytes(size))
    body = request(version, bytes(records))
    assert decode_produce_request(body, version) == Produce(None, -1, 30_000, [(topic_of(version), [(3, records)])])
    for frame, head, position in frames_around(body):
        acks, timeout_ms, topic, index, start, end = decode_single_produce(frame, head, position, version)
        if version < 9 or size < 2**21 - 1:  # longer ones are left to the general way
            assert (acks, timeout_ms, topic, index, frame[start:end]) == (-1, 30_000, topic_of(version), 3, records)
        else:
            assert (start, end) == (-1, -1)


def frames_around(body: memoryview) -> list[tuple[Frame, bytes, int]]:
    """The body behind headers of several lengths, as a small frame and as a longer one of which only the head is
    copied: each as (frame, head, position)."""
    found: list[tuple[Frame, bytes, int]] = []
    for position in (0, 17):
        data = bytes(position) + bytes(body)
        found.append((data, head_of_frame(data), position))
        view = memoryview(bytearray(data))
        found.append((view, head_of_frame(view), position))
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_a_head_that_ends_too_early_is_left_to_the_general_way(version: int) -> None:
    body = request(version, bytes(100))
    for size in range(len(body)):
        *_, start, end = decode_single_produce(body, bytes(body[:size]), 0, version)
        assert start == end == -1 or bytes(body[start:end]) == bytes(100)


@pytest.mark.parametrize("version", VERSIONS)
def test_several_partitions_and_none(version: int) -> None:
    produce = decode_produce_request(request(version, b"one", None, b"three", transactional_id="me"), version)
    assert produce == ("me", -1, 30_000, [(topic_of(version), [(3, b"one"), (4, None), (5, b"three")])])
    assert decode_produce_request(request(version), version).topics == [(topic_of(version), [])]
    empty = memoryview(ProduceRequest(acks=1, timeout_ms=5).encode(version))
    assert decode_produce_request(empty, version) == (None, 1, 5, [])


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_a_writable_view_of_the_frame(version: int) -> None:
    body = request(version, b"records")
    ((_, ((_, records),)),) = decode_produce_request(body, version).topics
    assert records is not None
    records[0] = ord("R")
    assert b"Records" in bytes(body)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("records", [(b"records",), (b"one", None, b"three"), ()])
def test_every_truncation_is_a_protocol_error(version: int, records: tuple[bytes | None, ...]) -> None:
    body = request(version, *records)
    for size in range(len(body)):
        for frame, head, position in frames_around(body[:size]):
            assert decode_single_produce(frame, head, position, version)[4:] == (-1, -1)
        with pytest.raises(ProtocolError):
            decode_produce_request(body[:size], version)
    with pytest.raises(ProtocolError):
        decode_produce_request(memoryview(bytes(body) + b"\0"), version)


def test_a_frame_may_not_name_millions_of_partitions() -> None:
    body = bytearray(b"\0\0\1\0\0\0\0\2\2t")
    write_unsigned_varint(body, PARTITIONS_MAX + 2)
    body += b"\0\0\0\0\0\0" * (PARTITIONS_MAX + 1) + b"\0\0"
    with pytest.raises(ProtocolError, match="more topics and partitions"):
        decode_produce_request(memoryview(body), 9)


def test_zstd_is_recognised_without_opening_the_batch() -> None:
    for codec in Codec:
        assert uses_zstd(memoryview(build_batch([Record()], codec=codec))) is (codec is Codec.ZSTD)
    assert not uses_zstd(memoryview(b"short"))


@pytest.mark.parametrize("version", VERSIONS)
def test_the_single_answer_is_the_general_one(version: int) -> None:
    for topic in (topic_of(version), TOPIC_ID if version >= 13 else "ü" * 100):
        frame = encode_single_produce_response(version, 0x01020304, topic, 3, 1000, 77, 5)
        assert int.from_bytes(frame[:4]) == len(frame) - 4
        header = b"\1\2\3\4\0" if version >= 9 else b"\1\2\3\4"
        assert frame[4:].startswith(header)
        single = frame[4 + len(header) :]
        assert single == encode_produce_response(version, [(topic, [PartitionResult(3, 1000, 77, 5)])])
        (answer,) = ProduceResponse.decode(single, version).responses
        (partition,) = answer.partition_responses
        assert (partition.index, partition.error_code, partition.base_offset) == (3, 0, 1000)
        assert partition.log_append_time_ms == 77
        assert partition.log_start_offset == (5 if version >= 5 else -1)


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_forgets_the_offsets_and_names_the_records(version: int) -> None:
    result = PartitionResult(3, 1000, 77, 5)
    result.fail(ErrorCode.INVALID_RECORD, "two of them", [(1, "no key"), (4, None)])
    result.leader_id, result.leader_epoch = 2, 9
    encoded = encode_produce_response(version, [(topic_of(version), [result])], 12, [NodeEndpoint(2, "host", 9092)])
    response = ProduceResponse.decode(encoded, version)
    partition = response.responses[0].partition_responses[0]
    assert partition.error_code == ErrorCode.INVALID_RECORD
    assert (partition.base_offset, partition.log_append_time_ms, partition.log_start_offset) == (-1, -1, -1)
    assert response.throttle_time_ms == 12
    if version >= 8:
        assert partition.error_message == "two of them"
        assert partition.record_errors == [
            BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key"),
            BatchIndexAndErrorMessage(batch_index=4),
        ]
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (
        (2, 9) if version >= 10 else (-1, -1)
    )
    assert [endpoint.host for endpoint in response.node_endpoints] == (["host"] if version >= 10 else [])
