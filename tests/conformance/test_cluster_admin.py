"""DescribeCluster, DescribeTopicPartitions, DescribeLogDirs, DescribeProducers and DeleteRecords."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient
from kio.schema.errors import ErrorCode

from tests.conformance.clients.message import Client, Message
from tests.conformance.clients.parametrize import every_client
from tests.conformance.cluster import Cluster, fetch_fields, new_name, produce_fields
from tests.conformance.record_batches import build_batch


def test_describe_cluster_agrees_with_metadata(cluster: Cluster) -> None:
    metadata = cluster.metadata()
    described = cluster.ask("describe_cluster", 1, include_cluster_authorized_operations=False, endpoint_type=1)
    assert described.error_code == ErrorCode.none
    assert described.cluster_id == metadata.cluster_id
    assert described.cluster_id
    assert [(b.broker_id, b.host, b.port) for b in described.brokers] == [
        (b.node_id, b.host, b.port) for b in metadata.brokers
    ]
    assert f"{metadata.brokers[0].host}:{metadata.brokers[0].port}" == cluster.bootstrap
    assert described.controller_id == metadata.controller_id


def test_describe_topic_partitions_pages_through_a_topic(cluster: Cluster) -> None:
    first, second = sorted([cluster.create_topic(partitions=5), cluster.create_topic(partitions=2)])
    counts = {first: len(cluster.describe_topic(first).partitions)}
    counts[second] = 7 - counts[first]
    seen: list[tuple[str, int]] = []
    cursor: Any = None
    for _ in range(10):
        answer = cluster.ask(
            "describe_topic_partitions",
            0,
            topics=[{"name": second}, {"name": first}],
            response_partition_limit=2,
            cursor=cursor,
        )
        page = [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
        assert len(page) <= 2
        seen += page
        if answer.next_cursor is None:
            break
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }
    assert seen == [(name, index) for name in (first, second) for index in range(counts[name])]


def test_describe_topic_partitions_of_an_unknown_topic(cluster: Cluster) -> None:
    name = new_name()
    fields: dict[str, Any] = {"topics": [{"name": name}], "response_partition_limit": 10, "cursor": None}
    answer = cluster.ask("describe_topic_partitions", 0, **fields)
    assert [(t.name, t.error_code) for t in answer.topics] == [(name, ErrorCode.unknown_topic_or_partition)]


def test_describe_log_dirs(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=2)
    batch = build_batch([b"v" * 1000])
    cluster.ask("produce", 9, **produce_fields(topic, batch, partition=1))
    answer = cluster.ask("describe_log_dirs", 4, topics=[{"topic": topic, "partitions": [0, 1]}])
    directory = answer.results[0]
    assert (answer.error_code, directory.error_code) == (ErrorCode.none, ErrorCode.none)
    assert directory.log_dir.startswith("/")
    assert 0 < directory.usable_bytes <= directory.total_bytes
    sizes = {part.partition_index: part.partition_size for part in directory.topics[0].partitions}
    assert sizes == {0: 0, 1: len(batch)}
    everything = cluster.ask("describe_log_dirs", 4, topics=None)
    assert topic in {described.name for described in everything.results[0].topics}


@pytest.mark.covers("N11")
def test_describe_producers(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    fields: dict[str, Any] = {"topics": [{"name": topic, "partition_indexes": [0, 9]}]}
    empty = cluster.ask("describe_producers", 0, **fields).topics[0].partitions
    assert {part.partition_index: part.error_code for part in empty} == {
        0: ErrorCode.none,
        9: ErrorCode.unknown_topic_or_partition,
    }
    made = cluster.ask("init_producer_id", 1, transactional_id=None, transaction_timeout=60_000)
    batch = build_batch([b"x", b"y"], producer_id=made.producer_id, producer_epoch=made.producer_epoch, base_sequence=0)
    cluster.ask("produce", 9, **produce_fields(topic, batch))
    parts = cluster.ask("describe_producers", 0, **fields).topics[0].partitions
    (producer,) = next(part for part in parts if part.partition_index == 0).active_producers
    assert producer.producer_id == made.producer_id
    assert (producer.producer_epoch, producer.last_sequence) == (made.producer_epoch, 1)
    assert producer.current_txn_start_offset == -1
    assert isinstance(producer.last_timestamp, (int, datetime.datetime))


def delete_records(cluster: Cluster, topic: str, offset: int, partition: int = 0) -> tuple[ErrorCode, int]:
    partitions = [{"partition_index": partition, "offset": offset}]
    topics = [{"name": topic, "partitions": partitions}]
    part = cluster.ask("delete_records", 2, topics=topics, timeout=10_000).topics[0].partitions[0]
    return part.error_code, part.low_watermark


@every_client
def test_delete_records_moves_the_start(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    readers[0].produce(topic, [Message(b"%d" % number) for number in range(10)], settings={"linger.ms": 50})
    assert delete_records(cluster, topic, 4) == (ErrorCode.none, 4)
    assert delete_records(cluster, topic, 2) == (ErrorCode.none, 4), "the start never goes back"
    assert cluster.list_offset(topic, -2) == 4
    answer = cluster.ask("fetch", 12, **fetch_fields(topic, 0, 3))
    part = answer.responses[0].partitions[0]
    assert part.error_code == ErrorCode.offset_out_of_range
    answer = cluster.ask("fetch", 12, **fetch_fields(topic, 0, 4))
    assert answer.responses[0].partitions[0].log_start_offset == 4
    assert [record.offset for record in client.consume(topic, 6, offset=4)] == list(range(4, 10))
    assert delete_records(cluster, topic, -1) == (ErrorCode.none, 10)
    assert cluster.list_offset(topic, -2) == cluster.end_offset(topic) == 10


def test_delete_records_is_refused(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    cluster.ask("produce", 9, **produce_fields(topic, build_batch([b"x"])))
    assert delete_records(cluster, topic, 2)[0] == ErrorCode.offset_out_of_range
    assert delete_records(cluster, topic, -2)[0] == ErrorCode.offset_out_of_range
    assert delete_records(cluster, topic, 0, partition=9)[0] == ErrorCode.unknown_topic_or_partition
    assert delete_records(cluster, new_name(), 0)[0] == ErrorCode.unknown_topic_or_partition
    assert cluster.list_offset(topic, -2) == 0


def test_confluent_admin(cluster: Cluster, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    readers[0].produce(topic, [Message(b"x")] * 5)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    described = admin.describe_cluster().result(10)
    assert described.cluster_id == cluster.metadata().cluster_id
    assert [node.port for node in described.nodes] == [int(cluster.bootstrap.rsplit(":", 1)[1])]
    target = TopicPartition(topic, 0, 3)
    assert admin.delete_records([target])[target].result(10).low_watermark == 3
    beyond = TopicPartition(topic, 0, 99)
    with pytest.raises(KafkaException):
        admin.delete_records([beyond])[beyond].result(10)


def test_kafka_python_admin(cluster: Cluster, readers: list[Client]) -> None:
    topic = cluster.create_topic(partitions=2)
    readers[0].produce(topic, [Message(b"x")] * 5)
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        assert admin.describe_cluster()["cluster_id"] == cluster.metadata().cluster_id
        pages = admin.describe_topic_partitions([topic])
        assert len(pages["topics"][0]["partitions"]) == 2
        assert admin.describe_log_dirs()
    finally:
        admin.close()
