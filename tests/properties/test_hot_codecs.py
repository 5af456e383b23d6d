"""The hand-written codecs of Produce and Fetch say exactly what the generated ones say.

Requests: the same bytes give the same fields, and bytes that one refuses the other refuses too.
Responses: the same fields give the same bytes.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.errors import ProtocolError
from hightide.wire.fetch import FetchedRecords, decode_fetch_request, encode_fetch_response
from hightide.wire.framing import head_of_frame
from hightide.wire.messages.fetch import FetchRequest, FetchResponse
from hightide.wire.messages.produce import ProduceRequest, ProduceResponse
from hightide.wire.produce import (
    NodeEndpoint,
    PartitionResult,
    decode_produce_request,
    decode_single_produce,
    encode_produce_response,
)
from tests.properties.messages import SUBJECTS, full_sample, tame, wide

BY_NAME = {subject.schema.name: subject for subject in SUBJECTS}


def produced(message: ProduceRequest, version: int) -> tuple[Any, ...]:
    topics = [
        (topic.topic_id if version >= 13 else topic.name, [(data.index, data.records) for data in topic.partition_data])
        for topic in message.topic_data
    ]
    return message.transactional_id, message.acks, message.timeout_ms, topics


def fetched(message: FetchRequest, version: int) -> tuple[Any, ...]:
    topics = [
        (
            topic.topic_id if version >= 13 else topic.topic,
            [
                (
                    asked.partition, asked.fetch_offset, asked.partition_max_bytes, asked.current_leader_epoch,
                    asked.last_fetched_epoch, asked.log_start_offset, asked.replica_directory_id, asked.high_watermark,
                    asked.tombstone_horizon,
                )
                for asked in topic.partitions
            ],
        )
        for topic in message.topics
    ]  # fmt: skip
    forgotten = [
        (topic.topic_id if version >= 13 else topic.topic, topic.partitions) for topic in message.forgotten_topics_data
    ]
    state = message.replica_state
    return (
        state.replica_id if version >= 15 else message.replica_id, state.replica_epoch, message.max_wait_ms,
        message.min_bytes, message.max_bytes, message.isolation_level, message.session_id, message.session_epoch,
        topics, forgotten, message.rack_id, message.cluster_id, message.session_durability,
    )  # fmt: skip


def by_hand(name: str, body: bytes, version: int) -> tuple[Any, ...] | None:
    try:
        return produce_by_hand(memoryview(body), version) if name == "ProduceRequest" else fetch_by_hand(body, version)
    except ProtocolError:
        return None


def fetch_by_hand(body: bytes, version: int) -> tuple[Any, ...]:
    fetch = decode_fetch_request(body, version)
    topics = [
        (
            topic,
            [
                (
                    asked.partition, asked.fetch_offset, asked.max_bytes, asked.current_leader_epoch,
                    asked.last_fetched_epoch, asked.log_start_offset, asked.directory_id, asked.high_watermark,
                    asked.tombstone_horizon,
                )
                for asked in partitions
            ],
        )
        for topic, partitions in fetch.topics
    ]  # fmt: skip
    return (
        fetch.replica_id, fetch.replica_epoch, fetch.max_wait_ms, fetch.min_bytes, fetch.max_bytes,
        fetch.isolation_level, fetch.session_id, fetch.session_epoch, topics, fetch.forgotten, fetch.rack_id,
        fetch.cluster_id, fetch.session_durability,
    )  # fmt: skip


def produce_by_hand(body: memoryview, version: int) -> tuple[Any, ...]:
    """The general way, and the short one wherever that answers at all."""
    acks, timeout_ms, topic, index, start, end = decode_single_produce(body, head_of_frame(body), 0, version)
    small = bytes(body)
    assert decode_single_produce(small, small, 0, version) == (acks, timeout_ms, topic, index, start, end)
    produce = decode_produce_request(body, version)
    if start >= 0:
        assert produce == (None, acks, timeout_ms, [(topic, [(index, body[start:end])])])
    return produce


def generated(name: str, body: bytes, version: int) -> tuple[Any, ...] | None:
    try:
        if name == "ProduceRequest":
            return produced(ProduceRequest.decode(body, version), version)
        return fetched(FetchRequest.decode(body, version), version)
    except ProtocolError:
        return None


REQUESTS = ["ProduceRequest", "FetchRequest"]


@pytest.mark.parametrize("name", REQUESTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_requests_are_read_alike(name: str, data: st.DataObject) -> None:
    subject = BY_NAME[name]
    version = data.draw(st.sampled_from(subject.versions))
    body = data.draw(wide(subject, version)).encode(version)
    result = by_hand(name, body, version)
    assert result is not None
    assert result == generated(name, body, version)


@pytest.mark.parametrize("name", REQUESTS)
def test_full_requests_are_read_alike_and_their_truncations_refused(name: str) -> None:
    subject = BY_NAME[name]
    for version in subject.versions:
        body = full_sample(subject, version).encode(version)
        assert by_hand(name, body, version) == generated(name, body, version) is not None
        for size in range(len(body)):
            assert by_hand(name, body[:size], version) is None


@pytest.mark.parametrize("name", REQUESTS)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_requests_are_read_or_refused_alike(name: str, data: st.DataObject) -> None:
    subject = BY_NAME[name]
    version = data.draw(st.sampled_from(subject.versions))
    body = bytearray(data.draw(st.just(full_sample(subject, version)) | wide(subject, version)).encode(version))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    assert by_hand(name, bytes(body), version) == generated(name, bytes(body), version)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_produce_responses_are_written_alike(data: st.DataObject) -> None:
    subject = BY_NAME["ProduceResponse"]
    version = data.draw(st.sampled_from(subject.versions))
    message = data.draw(tame(subject, version))
    assert isinstance(message, ProduceResponse)
    topics = []
    for topic in message.responses:
        results = []
        for answer in topic.partition_responses:
            result = PartitionResult(
                answer.index, answer.base_offset, answer.log_append_time_ms, answer.log_start_offset
            )
            result.error_code = answer.error_code
            result.error_message = answer.error_message
            result.record_errors = [
                (error.batch_index, error.batch_index_error_message) for error in answer.record_errors
            ]
            result.leader_id = answer.current_leader.leader_id
            result.leader_epoch = answer.current_leader.leader_epoch
            results.append(result)
        topics.append((topic.topic_id if version >= 13 else topic.name, results))
    endpoints = [NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints]
    encoded = encode_produce_response(version, topics, message.throttle_time_ms, endpoints)
    assert encoded == message.encode(version)


class Slice:
    """Records on disk."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.length = len(data)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), on_disk=st.booleans())
def test_fetch_responses_are_written_alike(data: st.DataObject, on_disk: bool) -> None:
    subject = BY_NAME["FetchResponse"]
    version = data.draw(st.sampled_from(subject.versions))
    message = data.draw(tame(subject, version))
    assert isinstance(message, FetchResponse)
    topics = []
    for topic in message.responses:
        answers = []
        for answer in topic.partitions:
            records, aborted = answer.records, answer.aborted_transactions
            diverging, leader, snapshot = answer.diverging_epoch, answer.current_leader, answer.snapshot_id
            answers.append(
                FetchedRecords(
                    answer.partition_index,
                    answer.error_code,
                    answer.high_watermark,
                    answer.last_stable_offset,
                    answer.log_start_offset,
                    records if records is None or not on_disk else Slice(bytes(records)),
                    aborted if aborted is None else [(entry.producer_id, entry.first_offset) for entry in aborted],
                    answer.preferred_read_replica,
                    (diverging.epoch, diverging.end_offset) if version >= 12 else None,
                    (leader.leader_id, leader.leader_epoch)
                    if data.draw(st.booleans()) or leader.leader_id != -1
                    else None,
                    (snapshot.end_offset, snapshot.epoch) if version >= 12 else None,
                )
            )
        topics.append((topic.topic_id if version >= 13 else topic.topic, answers))
    parts = encode_fetch_response(
        version,
        topics,
        throttle_ms=message.throttle_time_ms,
        error_code=message.error_code,
        session_id=message.session_id,
        endpoints=[NodeEndpoint(node.node_id, node.host, node.port, node.rack) for node in message.node_endpoints],
    )
    encoded = b"".join(part.data if isinstance(part, Slice) else part for part in parts)
    assert encoded == message.encode(version)
