"""Timestamps of both kinds, and finding offsets by time."""

from __future__ import annotations

import time

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.clients.java import JavaDriver
from tests.conformance.clients.message import CREATE_TIME, LOG_APPEND_TIME, Client, Message
from tests.conformance.clients.parametrize import client_parameters, every_client
from tests.conformance.cluster import Cluster, produce_fields
from tests.conformance.record_batches import build_batch, encode_record

# Recent, or retention takes the records away.
T0 = int(time.time() * 1000) - 3_600_000


@client_parameters("kcat")
def test_create_time_is_the_producers(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    times = [T0, T0 + 5, T0 - 1000]
    assert all(sent.error == 0 for sent in client.produce(topic, [Message(b"x", timestamp=t) for t in times]))
    for reader in readers:
        received = reader.consume(topic, len(times))
        assert [record.timestamp for record in received] == times, reader.name
        assert {record.timestamp_type for record in received} <= {CREATE_TIME, None}, reader.name


@every_client
def test_log_append_time_is_the_brokers(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic(message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000) - 1
    old = None if client.name == "kcat" else T0
    client.produce(topic, [Message(b"x", timestamp=old), Message(b"y", timestamp=old)])
    after = int(time.time() * 1000) + 1
    assert all(batch.has_log_append_time for batch in cluster.batches(topic))
    for reader in readers:
        for record in reader.consume(topic, 2):
            assert before <= record.timestamp <= after, reader.name
            assert record.timestamp_type in (LOG_APPEND_TIME, None), reader.name


def test_produce_answers_the_append_time_only_where_it_was_set(cluster: Cluster) -> None:
    for kind, expect_time in (("CreateTime", False), ("LogAppendTime", True)):
        topic = cluster.create_topic(message_timestamp_type=kind)
        answer = cluster.ask("produce", 9, **produce_fields(topic, build_batch([b"x"], timestamp=T0)))
        appended = answer.responses[0].partition_responses[0].log_append_time
        assert (appended is not None) == expect_time, appended


@every_client
def test_seek_by_time(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    times = [T0, T0 + 100, T0 + 100, T0 + 200, T0 + 150, T0 + 300]
    readers[0].produce(topic, [Message(b"x", timestamp=t) for t in times], settings={"batch.num.messages": 2})
    questions = {T0 - 1: 0, T0: 0, T0 + 1: 1, T0 + 100: 1, T0 + 101: 3, T0 + 160: 3, T0 + 201: 5, T0 + 300: 5}
    assert {at: client.offset_for_time(topic, at) for at in questions} == questions
    assert client.offset_for_time(topic, T0 + 301) is None


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_seek_by_time_looks_inside_compressed_batches(cluster: Cluster, readers: list[Client], codec: str) -> None:
    topic = cluster.create_topic()
    messages = [Message(b"the same again " * 20, timestamp=T0 + 10 * number) for number in range(20)]
    aiokafka = next(reader for reader in readers if reader.name == "aiokafka")
    aiokafka.produce(topic, messages, codec=codec, settings={"linger_ms": 100})
    batches = cluster.batches(topic)
    assert batches[0].codec == codec
    assert batches[0].record_count > 1
    assert [readers[0].offset_for_time(topic, T0 + at) for at in (0, 1, 95, 190)] == [0, 1, 10, 19]


def test_earliest_latest_and_max_timestamp(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    assert [cluster.list_offset(topic, special) for special in (-2, -1, -3)] == [0, 0, -1]
    for at in (T0, T0 + 500, T0 + 100):
        cluster.ask("produce", 9, **produce_fields(topic, build_batch([b"x", b"y"], timestamp=at)))
    assert [cluster.list_offset(topic, special) for special in (-2, -1, -3)] == [0, 6, 2]


def test_max_timestamp_is_the_first_of_equals_inside_a_batch(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    payload = b"".join(encode_record(b"x", offset_delta=i, timestamp_delta=d) for i, d in enumerate((0, 7, 7, 3)))
    batch = build_batch([b""] * 4, payload=payload, timestamp=T0, max_timestamp=T0 + 7)
    cluster.ask("produce", 9, **produce_fields(topic, batch))
    assert cluster.list_offset(topic, -3) == 1


def test_timestamps_outside_the_topics_bounds_are_refused(cluster: Cluster) -> None:
    now = int(time.time() * 1000)
    topic = cluster.create_topic(message_timestamp_before_max_ms=60_000, message_timestamp_after_max_ms=60_000)
    expected = {
        now: ErrorCode.none,
        now - 30_000: ErrorCode.none,
        now - 90_000: ErrorCode.invalid_timestamp,
        now + 90_000: ErrorCode.invalid_timestamp,
    }
    for at, error in expected.items():
        answer = cluster.ask("produce", 9, **produce_fields(topic, build_batch([b"x"], timestamp=at)))
        assert answer.responses[0].partition_responses[0].error_code == error


@pytest.mark.java
def test_kafka_get_offsets(cluster: Cluster, java: JavaDriver) -> None:
    topic = cluster.create_topic(partitions=2)
    for at in (T0, T0 + 500, T0 + 100):
        cluster.ask("produce", 9, **produce_fields(topic, build_batch([b"x", b"y"], timestamp=at)))

    def offsets(moment: str) -> list[str]:
        result = java.tool(
            "GetOffsetShell", "--bootstrap-server", cluster.bootstrap, "--topic", topic, "--time", moment
        )
        assert result.code == 0, result.errors
        return result.text.split()

    assert offsets("latest") == [f"{topic}:0:6", f"{topic}:1:0"]
    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("max-timestamp")[0] == f"{topic}:0:2"
    assert offsets(str(T0 + 100))[0] == f"{topic}:0:2"
