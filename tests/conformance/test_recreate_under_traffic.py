"""A topic deleted and created again while producers and consumers are at work on it.

Nobody may see records of the old topic in the new one, clients find the new one by themselves, and what they were told
is written is there.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from kafka import KafkaProducer
from kio.schema.errors import ErrorCode

from tests.conformance.clients.librdkafka import ConfluentClient
from tests.conformance.cluster import Cluster, new_name

ROUNDS = 3


def recreate(cluster: Cluster, topic: str) -> None:
    cluster.ask("delete_topics", 4, topic_names=[topic], timeout=10_000)
    new = {"name": topic, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = cluster.ask("create_topics", 7, topics=[new], timeout=10_000, validate_only=False)
    # A producer's metadata request may have created it first.
    assert answer.topics[0].error_code in (ErrorCode.none, ErrorCode.topic_already_exists)
    cluster.wait_for_leaders(topic)


class Traffic:
    """A thread that produces numbered values of the current round until told to stop; keeps what was acknowledged."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.round = 0
        self.acknowledged: list[tuple[int, bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            self.send(b"%d:%d" % (self.round, number))
            number += 1
            time.sleep(0.002)
        self.finish()

    def wait_for_more(self, count: int = 5) -> None:
        """Wait until a few more records were acknowledged: the client got over the recreation."""
        target = len(self.acknowledged) + count
        deadline = time.monotonic() + 20
        while len(self.acknowledged) < target:
            assert time.monotonic() < deadline, "the producer did not find the new topic"
            time.sleep(0.02)

    def send(self, value: bytes) -> None:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError


class ConfluentTraffic(Traffic):
    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(topic)
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "topic.metadata.refresh.interval.ms": 500})

    def send(self, value: bytes) -> None:
        self._producer.produce(self.topic, value, partition=0, on_delivery=self._delivered)
        self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged.append((message.offset(), message.value()))

    def finish(self) -> None:
        self._producer.flush(20)


class KafkaPythonTraffic(Traffic):
    def __init__(self, cluster: Cluster, topic: str) -> None:
        super().__init__(topic)
        self._producer = KafkaProducer(
            bootstrap_servers=cluster.bootstrap, metadata_max_age_ms=500, enable_idempotence=False
        )

    def send(self, value: bytes) -> None:
        future = self._producer.send(self.topic, value, partition=0)
        future.add_callback(lambda metadata: self.acknowledged.append((metadata.offset, value)))

    def finish(self) -> None:
        self._producer.close(timeout=20)


def read_all(cluster: Cluster, topic: str) -> dict[int, bytes]:
    end = cluster.end_offset(topic)
    records = ConfluentClient(cluster.bootstrap).consume(topic, end)
    return {record.offset: record.value or b"" for record in records}


@pytest.mark.parametrize("traffic_type", [ConfluentTraffic, KafkaPythonTraffic], ids=["confluent", "kafka-python"])
def test_producers_find_the_new_topic(cluster: Cluster, traffic_type: Any) -> None:
    topic = cluster.create_topic()
    with traffic_type(cluster, topic) as traffic:
        traffic.wait_for_more()
        for number in range(1, ROUNDS + 1):
            traffic.round = number
            recreate(cluster, topic)
            traffic.wait_for_more()
        mark = len(traffic.acknowledged)
        traffic.wait_for_more()
    contents = read_all(cluster, topic)
    # Everything acknowledged after the last recreation settled is where the producer was told.
    for offset, value in traffic.acknowledged[mark:]:
        assert contents[offset] == value
    assert sorted(contents) == list(range(len(contents))), "the new topic begins at offset 0"
    assert not [value for value in contents.values() if value.startswith(b"0:")], "records of the first topic"


def test_consumers_find_the_new_topic(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    client = ConfluentClient(cluster.bootstrap)
    consumer = client.consumer(
        **{
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 200,
            "allow.auto.create.topics": False,
        }
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        producer.produce(topic, b"old", partition=0)
        producer.flush(10)
        assert next_value(consumer) == b"old"
        recreate(cluster, topic)
        fresh = Producer({"bootstrap.servers": cluster.bootstrap})
        for _ in range(5):
            fresh.produce(topic, b"new", partition=0)
        assert fresh.flush(10) == 0
        # Whether it goes on at its position or starts over is the client's choice; both lead to the new records.
        assert next_value(consumer) == b"new"
    finally:
        consumer.close()


def next_value(consumer: Any) -> bytes:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        message = consumer.poll(0.2)
        if message is not None and not message.error():
            value: bytes = message.value()
            return value
    raise AssertionError("the consumer saw nothing")


def test_delete_and_create_in_a_hurry(cluster: Cluster) -> None:
    """The same name thirty times, each time another topic with only its own record."""
    name = new_name()
    seen = set()
    for number in range(30):
        topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        answer = cluster.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
        assert answer.topics[0].error_code == ErrorCode.none, number
        seen.add(answer.topics[0].topic_id)
        cluster.wait_for_leaders(name)
        assert cluster.end_offset(name) == 0
        answer = cluster.ask("delete_topics", 4, topic_names=[name], timeout=10_000)
        assert answer.responses[0].error_code == ErrorCode.none, number
    assert len(seen) == 30
