"""The hand-written Fetch codec: the parts of a response; tests/properties compares every field of both directions."""

from typing import Any

import pytest

from hightide.errors import ProtocolError
from hightide.limits import PARTITIONS_MAX
from hightide.wire.fetch import (
    INLINE_BYTES,
    FetchedRecords,
    decode_fetch_request,
    encode_fetch_response,
)
from hightide.wire.follower_fetch import encode_request
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from hightide.wire.primitives import write_unsigned_varint

VERSIONS = range(4, 19)
TOPIC_ID = bytes(range(16))


class Slice:
    """Stands for a range of a file."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)


def topic_of(version: int) -> str | bytes:
    return TOPIC_ID if version >= 13 else "topic"


def joined(parts: list[bytes | bytearray | Slice]) -> bytes:
    return b"".join(part.data if isinstance(part, Slice) else part for part in parts)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_slice_stays_a_part_of_its_own(version: int) -> None:
    data = Slice(b"\1" * 300)
    parts = encode_fetch_response(version, [(topic_of(version), [FetchedRecords(3, 0, 9, 8, 1, data)])])
    assert [part for part in parts if isinstance(part, Slice)] == [data]
    assert isinstance(parts[0], bytes | bytearray)
    answer = FetchResponse.decode(joined(parts), version).responses[0].partitions[0]
    assert (answer.partition_index, answer.high_watermark, answer.last_stable_offset) == (3, 9, 8)
    assert answer.records == data.data


@pytest.mark.parametrize("version", VERSIONS)
def test_several_slices_between_answers_without_any(version: int) -> None:
    slices = [Slice(b"a" * 200), Slice(b""), Slice(b"b" * 20_000)]
    answers = [FetchedRecords(0), *(FetchedRecords(index + 1, records=data) for index, data in enumerate(slices))]
    parts = encode_fetch_response(version, [(topic_of(version), answers), (topic_of(version), [FetchedRecords(9)])])
    assert [part for part in parts if isinstance(part, Slice)] == slices  # an empty one too: it has to be released
    response = FetchResponse.decode(joined(parts), version)
    assert [bytes(answer.records or b"") for answer in response.responses[0].partitions] == [
        b"", slices[0].data, b"", slices[2].data,
    ]  # fmt: skip
    assert [answer.partition_index for answer in response.responses[1].partitions] == [9]


@pytest.mark.parametrize("version", VERSIONS)
def test_large_records_in_memory_are_not_copied(version: int) -> None:
    small, large = bytes(INLINE_BYTES), memoryview(bytes(INLINE_BYTES + 1))
    topics = [(topic_of(version), [FetchedRecords(0, records=small), FetchedRecords(1, records=large)])]
    parts = encode_fetch_response(version, topics)
    assert len(parts) == 3
    assert parts[1] is large
    response = FetchResponse.decode(b"".join(parts), version)
    assert [len(answer.records or b"") for answer in response.responses[0].partitions] == [len(small), len(large)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_answer_to_nothing_is_one_part(version: int) -> None:
    (part,) = encode_fetch_response(version, [], session_id=7, error_code=70, throttle_ms=3)
    response = FetchResponse.decode(part, version)
    assert (response.throttle_time_ms, response.responses) == (3, [])
    if version >= 7:
        assert (response.session_id, response.error_code) == (7, 70)


@pytest.mark.parametrize("version", range(4, 12))
def test_what_an_old_version_cannot_say_is_refused_unless_it_is_a_hint(version: int) -> None:
    for answer in (FetchedRecords(0, diverging_epoch=(3, 4)), FetchedRecords(0, snapshot_id=(3, 4))):
        with pytest.raises(ProtocolError):
            encode_fetch_response(version, [("topic", [answer])])
    if version < 11:
        with pytest.raises(ProtocolError):
            encode_fetch_response(version, [("topic", [FetchedRecords(0, preferred_read_replica=1)])])
    hinted = encode_fetch_response(version, [("topic", [FetchedRecords(0, current_leader=(1, 2))])])
    assert hinted == encode_fetch_response(version, [("topic", [FetchedRecords(0)])])


@pytest.mark.parametrize("version", VERSIONS)
def test_every_truncation_is_a_protocol_error(version: int) -> None:
    partitions = [FetchPartition(partition=index, fetch_offset=5, partition_max_bytes=100) for index in range(3)]
    topics = [FetchTopic(topic="topic", topic_id=TOPIC_ID, partitions=partitions)]
    body = FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics).encode(version)
    assert [asked.partition for asked in decode_fetch_request(body, version).topics[0][1]] == [0, 1, 2]
    for size in range(len(body)):
        with pytest.raises(ProtocolError):
            decode_fetch_request(body[:size], version)
    with pytest.raises(ProtocolError):
        decode_fetch_request(body + b"\0", version)


@pytest.mark.parametrize("version", [15, 16, 17, 18])
def test_the_durability_of_a_session_is_told_from_version_17_on(version: int) -> None:
    listed = [(TOPIC_ID, [(0, 0, 5, 0, 0, -1)])]
    frame = encode_request(1, b"", (2, 3), (500, 1, 100), (0, 0), listed, 100, [], 1)
    fetch = decode_fetch_request(frame[15:], version)
    assert (fetch.replica_id, fetch.replica_epoch) == (2, 3)
    assert fetch.session_durability == (1 if version >= 17 else -1)


def test_a_frame_may_not_name_millions_of_topics() -> None:
    body = bytearray(21)
    write_unsigned_varint(body, PARTITIONS_MAX + 2)
    body += bytes(18) * (PARTITIONS_MAX + 1)
    with pytest.raises(ProtocolError, match="more topics and partitions"):
        decode_fetch_request(bytes(body), 17)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("changes", [{}, {"rack_id": "r"}, {"session_id": 5, "session_epoch": 6}])
def test_the_fetch_of_one_partition(version: int, changes: dict[str, Any]) -> None:
    partition = FetchPartition(partition=4, fetch_offset=99, partition_max_bytes=7)
    message = FetchRequest(
        max_wait_ms=1, min_bytes=2, max_bytes=3, isolation_level=1,
        topics=[FetchTopic(topic="topic", topic_id=TOPIC_ID, partitions=[partition])], **changes,
    )  # fmt: skip
    fetch = decode_fetch_request(message.encode(version), version)
    ((topic, (asked,)),) = fetch.topics
    assert topic == topic_of(version)
    assert (asked.partition, asked.fetch_offset, asked.max_bytes, asked.current_leader_epoch) == (4, 99, 7, -1)
    assert (asked.last_fetched_epoch, asked.log_start_offset, asked.tombstone_horizon) == (-1, -1, -1)
    assert (fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes, fetch.isolation_level) == (1, 2, 3, 1)
    assert fetch.rack_id == (changes.get("rack_id", "") if version >= 11 else "")
    assert fetch.session_id == (changes.get("session_id", 0) if version >= 7 else 0)
    assert (fetch.replica_id, fetch.forgotten, fetch.cluster_id, fetch.session_durability) == (-1, [], None, -1)
