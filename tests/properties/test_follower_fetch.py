"""The Fetch of followers, written and read by hand, is what the generated messages write and read."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.errors import ProtocolError
from hightide.wire.fetch import decode_fetch_request
from hightide.wire.follower_fetch import VERSION, Answers, decode_answers, encode_request
from hightide.wire.headers import RequestHeader
from hightide.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from tests.properties.messages import SUBJECTS, full_sample, wide

ANSWERS = {subject.schema.name: subject for subject in SUBJECTS}["FetchResponse"]
CORRELATION_ID = b"\0\0\0\7"

INT8, INT32, INT64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (7, 31, 63))
TOPIC_IDS = st.binary(min_size=16, max_size=16)
LISTED = st.tuples(INT32, INT32, INT64, INT32, INT64, INT64)


@settings(max_examples=150, deadline=None)
@given(
    replica=st.tuples(INT32, INT64),
    limits=st.tuples(INT32, INT32, INT32),
    session=st.tuples(INT32, INT32),
    listed=st.lists(st.tuples(TOPIC_IDS, st.lists(LISTED, max_size=3)), max_size=3),
    bytes_max=INT32,
    forgotten=st.lists(st.tuples(TOPIC_IDS, INT32), max_size=3),
    durability=INT8.filter(lambda value: value != -1),
)
def test_requests_are_written_alike(
    replica: tuple[int, int],
    limits: tuple[int, int, int],
    session: tuple[int, int],
    listed: list[Any],
    bytes_max: int,
    forgotten: list[Any],
    durability: int,
) -> None:
    frame = encode_request(7, b"node-9", replica, limits, session, listed, bytes_max, forgotten, durability)
    header = bytearray()
    RequestHeader(FetchRequest.api_key, VERSION, 7, "node-9").write(header)
    assert frame.startswith((len(frame) - 4).to_bytes(4) + header)
    body = frame[4 + len(header) :]
    message = FetchRequest(
        replica_state=ReplicaState(replica_id=replica[0], replica_epoch=replica[1]),
        max_wait_ms=limits[0],
        min_bytes=limits[1],
        max_bytes=limits[2],
        session_id=session[0],
        session_epoch=session[1],
        topics=[
            FetchTopic(topic_id=topic, partitions=[asked(part, bytes_max) for part in parts]) for topic, parts in listed
        ],
        forgotten_topics_data=[ForgottenTopic(topic_id=topic, partitions=[index]) for topic, index in forgotten],
        session_durability=durability,
    )
    if replica != (-1, -1):  # what no replica is, and a generated message leaves out
        assert body == message.encode(VERSION)
    decoded = decode_fetch_request(body, VERSION)
    assert (decoded.replica_id, decoded.replica_epoch, decoded.session_durability) == (*replica, durability)


def asked(part: tuple[int, int, int, int, int, int], bytes_max: int) -> FetchPartition:
    index, leader_epoch, fetch_offset, last_epoch, log_start, horizon = part
    return FetchPartition(
        partition=index,
        current_leader_epoch=leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_epoch,
        log_start_offset=log_start,
        partition_max_bytes=bytes_max,
        tombstone_horizon=horizon,
    )


def by_hand(body: bytes) -> tuple[Any, ...] | None:
    try:
        answers = decode_answers(CORRELATION_ID + b"\0" + body)
    except ProtocolError:
        return None
    view = decode_answers(memoryview(bytearray(CORRELATION_ID + b"\0" + body)))
    assert plain(view) == plain(answers)
    return plain(answers)


def plain(answers: Answers) -> tuple[Any, ...]:
    partitions = [
        (
            part.topic_id, part.partition, part.error_code, part.high_watermark, part.log_start, part.records,
            part.diverging,
        )
        for part in answers.partitions
    ]  # fmt: skip
    return answers.error_code, answers.session_id, partitions


def generated(body: bytes) -> tuple[Any, ...] | None:
    try:
        message = FetchResponse.decode(body, VERSION)
    except ProtocolError:
        return None
    answers = []
    for topic in message.responses:
        for part in topic.partitions:
            diverging = part.diverging_epoch.epoch, part.diverging_epoch.end_offset
            answers.append(
                (
                    topic.topic_id, part.partition_index, part.error_code, part.high_watermark, part.log_start_offset,
                    part.records or None, None if diverging == (-1, -1) else diverging,
                )
            )  # fmt: skip
    return message.error_code, message.session_id, answers


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_answers_are_read_alike(data: st.DataObject) -> None:
    body = data.draw(wide(ANSWERS, VERSION)).encode(VERSION)
    assert by_hand(body) == generated(body)


RECORDS = st.sampled_from([None, b"", b"r", b"r" * 126, b"r" * 127, b"r" * 20_000])


@settings(max_examples=200, deadline=None)
@given(records=RECORDS, numbers=st.tuples(INT32, INT64, INT64), aborted=st.sampled_from([None, []]), data=st.data())
def test_answers_about_one_partition_are_read_alike(
    records: bytes | None, numbers: tuple[int, int, int], aborted: list[Any] | None, data: st.DataObject
) -> None:
    index, high_watermark, log_start = numbers
    part = PartitionData(
        partition_index=index, high_watermark=high_watermark, log_start_offset=log_start, aborted_transactions=aborted,
        records=None if records is None else memoryview(records),
    )  # fmt: skip
    topic = FetchableTopicResponse(topic_id=data.draw(TOPIC_IDS), partitions=[part])
    body = bytearray(FetchResponse(session_id=5, responses=[topic]).encode(VERSION))
    assert by_hand(bytes(body)) == generated(bytes(body)) is not None
    for size in data.draw(st.sets(st.integers(0, len(body) - 1), max_size=20)):
        assert by_hand(bytes(body[:size])) is None
    body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    expected = generated(bytes(body))
    found = by_hand(bytes(body))
    assert found == expected or expected is None


def test_a_full_answer_is_read_alike_and_its_truncations_are_refused() -> None:
    body = full_sample(ANSWERS, VERSION).encode(VERSION)
    assert by_hand(body) == generated(body) is not None
    for size in range(len(body)):
        assert by_hand(body[:size]) is None
    assert by_hand(body + b"\0") is None


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_answers_are_read_alike_or_refused(data: st.DataObject) -> None:
    """Tags that a follower has no use for are not looked into: what is wrong in them only the generated one sees."""
    body = bytearray(data.draw(st.just(full_sample(ANSWERS, VERSION)) | wide(ANSWERS, VERSION)).encode(VERSION))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    expected = generated(bytes(body))
    found = by_hand(bytes(body))
    assert found == expected or expected is None
