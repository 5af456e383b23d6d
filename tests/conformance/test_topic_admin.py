"""Creating, growing, describing and deleting topics: what works, and every way to be told why it does not."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from kafka.admin import KafkaAdminClient
from kio.schema.errors import ErrorCode

from tests.conformance.clients.kcat import KcatClient
from tests.conformance.cluster import Cluster, fetch_fields, new_name, produce_fields
from tests.conformance.record_batches import build_batch


def create(cluster: Cluster, name: str, *, validate_only: bool = False, version: int = 7, **changes: Any) -> Any:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": [], **changes}
    answer = cluster.ask("create_topics", version, topics=[topic], timeout=10_000, validate_only=validate_only)
    return answer.topics[0]


def test_create_answers_what_was_made(cluster: Cluster) -> None:
    name = new_name()
    made = create(cluster, name, num_partitions=3, configs=[{"name": "retention.ms", "value": "1000"}])
    assert (made.error_code, made.num_partitions, made.replication_factor) == (ErrorCode.none, 3, 1)
    described = cluster.describe_topic(name)
    assert described.topic_id == made.topic_id
    assert made.topic_id is not None
    retention = next(config for config in made.configs if config.name == "retention.ms")
    assert (retention.value, retention.config_source, retention.read_only) == ("1000", 1, False)
    assert [part.partition_index for part in sorted(described.partitions, key=lambda p: p.partition_index)] == [0, 1, 2]
    for part in described.partitions:
        assert part.leader_id in part.replica_nodes
        assert part.isr_nodes == part.replica_nodes
        assert part.offline_replicas == ()


def test_defaults_are_the_brokers(cluster: Cluster) -> None:
    made = create(cluster, new_name(), num_partitions=-1, replication_factor=-1)
    assert made.error_code == ErrorCode.none
    assert made.num_partitions >= 1
    assert made.replication_factor >= 1


def test_manual_assignment(cluster: Cluster) -> None:
    name = new_name()
    broker = cluster.metadata().brokers[0].node_id
    assignments = [{"partition_index": index, "broker_ids": [broker]} for index in (0, 1)]
    made = create(cluster, name, num_partitions=-1, replication_factor=-1, assignments=assignments)
    assert (made.error_code, made.num_partitions, made.replication_factor) == (ErrorCode.none, 2, 1)
    assert [part.replica_nodes for part in cluster.describe_topic(name).partitions] == [(broker,), (broker,)]


def test_validate_only_creates_nothing(cluster: Cluster) -> None:
    name = new_name()
    assert create(cluster, name, validate_only=True).error_code == ErrorCode.none
    assert cluster.describe_topic(name).error_code == ErrorCode.unknown_topic_or_partition
    refused = create(cluster, name, validate_only=True, replication_factor=99)
    assert refused.error_code == ErrorCode.invalid_replication_factor


REFUSED: list[tuple[str, dict[str, Any], ErrorCode]] = [
    ("replication factor too large", {"replication_factor": 99}, ErrorCode.invalid_replication_factor),
    ("replication factor zero", {"replication_factor": 0}, ErrorCode.invalid_replication_factor),
    ("no partitions", {"num_partitions": 0}, ErrorCode.invalid_partitions),
    ("negative partitions", {"num_partitions": -2}, ErrorCode.invalid_partitions),
    ("unknown setting", {"configs": [{"name": "no.such.setting", "value": "1"}]}, ErrorCode.invalid_config),
    ("bad value", {"configs": [{"name": "retention.ms", "value": "soon"}]}, ErrorCode.invalid_config),
    ("value out of range", {"configs": [{"name": "segment.bytes", "value": "3"}]}, ErrorCode.invalid_config),
    ("bad choice", {"configs": [{"name": "compression.type", "value": "zip"}]}, ErrorCode.invalid_config),
    ("null value", {"configs": [{"name": "retention.ms", "value": None}]}, ErrorCode.invalid_config),
    (
        "assignment and counts",
        {"num_partitions": 1, "assignments": [{"partition_index": 0, "broker_ids": [1]}]},
        ErrorCode.invalid_request,
    ),
    (
        "unknown broker",
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": [77]}],
        },
        ErrorCode.invalid_replica_assignment,
    ),
    (
        "partitions not from zero",
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 1, "broker_ids": [1]}],
        },
        ErrorCode.invalid_replica_assignment,
    ),
    (
        "a broker twice",
        {
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": [{"partition_index": 0, "broker_ids": [1, 1]}],
        },
        ErrorCode.invalid_replica_assignment,
    ),
]


@pytest.mark.covers("T14")
@pytest.mark.parametrize(("changes", "error"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_create_is_refused(cluster: Cluster, changes: dict[str, Any], error: ErrorCode) -> None:
    name = new_name()
    refused = create(cluster, name, **changes)
    assert refused.error_code == error, refused
    assert refused.error_message
    assert cluster.describe_topic(name).error_code == ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "spa ce", "umläut", "x" * 250])
def test_bad_names_are_refused(cluster: Cluster, name: str) -> None:
    assert create(cluster, name).error_code == ErrorCode.invalid_topic_exception


def test_names_that_differ_in_dots_and_underscores_collide(cluster: Cluster) -> None:
    """Kafka refuses a name whose metric name would equal another topic's."""
    name = new_name("a.b")
    assert create(cluster, name).error_code == ErrorCode.none
    assert create(cluster, name.replace(".", "_")).error_code == ErrorCode.invalid_topic_exception


def test_an_existing_name_and_a_name_given_twice(cluster: Cluster) -> None:
    name = cluster.create_topic()
    assert create(cluster, name).error_code == ErrorCode.topic_already_exists
    assert create(cluster, name, validate_only=True).error_code == ErrorCode.topic_already_exists
    twice = new_name()
    topic = {"name": twice, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    answer = cluster.ask("create_topics", 7, topics=[topic, topic], timeout=10_000, validate_only=False)
    assert {result.error_code for result in answer.topics} == {ErrorCode.invalid_request}
    assert cluster.describe_topic(twice).error_code == ErrorCode.unknown_topic_or_partition


def test_one_bad_topic_does_not_spoil_the_others(cluster: Cluster) -> None:
    good, bad = new_name(), "not a name"
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
        for name in (good, bad)
    ]
    answer = cluster.ask("create_topics", 7, topics=topics, timeout=10_000, validate_only=False)
    errors = {result.name: result.error_code for result in answer.topics}
    assert errors == {good: ErrorCode.none, bad: ErrorCode.invalid_topic_exception}


def grow(cluster: Cluster, name: str, count: int, assignments: Any = None, validate_only: bool = False) -> Any:
    topics = [{"name": name, "count": count, "assignments": assignments}]
    answer = cluster.ask("create_partitions", 3, topics=topics, timeout=10_000, validate_only=validate_only)
    return answer.results[0].error_code


def test_create_partitions(cluster: Cluster) -> None:
    name = cluster.create_topic(partitions=2)
    broker = cluster.metadata().brokers[0].node_id
    assert grow(cluster, name, 3, validate_only=True) == ErrorCode.none
    assert len(cluster.describe_topic(name).partitions) == 2
    assert grow(cluster, name, 3) == ErrorCode.none
    assert grow(cluster, name, 5, [{"broker_ids": [broker]}] * 2) == ErrorCode.none
    cluster.wait_for_leaders(name, 5)
    assert sorted(part.partition_index for part in cluster.describe_topic(name).partitions) == [0, 1, 2, 3, 4]
    answer = cluster.ask("produce", 9, **produce_fields(name, build_batch([b"x"]), partition=4))
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.none


def test_create_partitions_is_refused(cluster: Cluster) -> None:
    name = cluster.create_topic(partitions=2)
    assert grow(cluster, name, 1) == ErrorCode.invalid_partitions
    assert grow(cluster, name, 2) == ErrorCode.invalid_partitions
    assert grow(cluster, name, 0) == ErrorCode.invalid_partitions
    assert grow(cluster, name, 4, [{"broker_ids": [1]}]) == ErrorCode.invalid_replica_assignment
    assert grow(cluster, name, 3, [{"broker_ids": [77]}]) == ErrorCode.invalid_replica_assignment
    assert grow(cluster, new_name(), 2) == ErrorCode.unknown_topic_or_partition
    assert len(cluster.describe_topic(name).partitions) == 2


def test_delete_by_name_and_by_id(cluster: Cluster) -> None:
    by_name, by_id = cluster.create_topic(), cluster.create_topic()
    topic_id = cluster.describe_topic(by_id).topic_id
    answer = cluster.ask(
        "delete_topics",
        6,
        topics=[{"name": by_name, "topic_id": None}, {"name": None, "topic_id": topic_id}],
        timeout=10_000,
    )
    assert {result.name: result.error_code for result in answer.responses} == {
        by_name: ErrorCode.none,
        by_id: ErrorCode.none,
    }
    for name in (by_name, by_id):
        assert cluster.describe_topic(name).error_code == ErrorCode.unknown_topic_or_partition
        assert cluster.offset_error(name, 0) == ErrorCode.unknown_topic_or_partition
    again = cluster.ask("delete_topics", 6, topics=[{"name": None, "topic_id": topic_id}], timeout=10_000)
    assert again.responses[0].error_code == ErrorCode.unknown_topic_id
    again = cluster.ask("delete_topics", 4, topic_names=[by_name], timeout=10_000)
    assert again.responses[0].error_code == ErrorCode.unknown_topic_or_partition


def test_a_recreated_topic_is_another_topic(cluster: Cluster) -> None:
    name = cluster.create_topic()
    old = cluster.describe_topic(name).topic_id
    cluster.ask("produce", 9, **produce_fields(name, build_batch([b"old"])))
    cluster.ask("delete_topics", 4, topic_names=[name], timeout=10_000)
    assert create(cluster, name).error_code == ErrorCode.none
    cluster.wait_for_leaders(name)
    new = cluster.describe_topic(name).topic_id
    assert new != old
    assert cluster.end_offset(name) == 0
    by_id = {"topic_id": old, "topic": name, "partitions": [{"partition": 0, "fetch_offset": 0}]}
    by_id["partitions"][0]["partition_max_bytes"] = 1000
    answer = cluster.ask("fetch", 13, **fetch_fields(name, 0, 0, topics=[by_id]))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.unknown_topic_id
    data = [{"topic_id": old, "partition_data": [{"index": 0, "records": build_batch([b"x"])}]}]
    answer = cluster.ask("produce", 13, transactional_id=None, acks=-1, timeout=1000, topic_data=data)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.unknown_topic_id


def test_confluent_admin(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    name = new_name()
    assert admin.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "60000"})])[name].result(10) is None
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic(name, 2, 1)])[name].result(10)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    admin.create_partitions([NewPartitions(name, 4)])[name].result(10)
    cluster.wait_for_leaders(name, 4)
    assert len(admin.list_topics(name, timeout=10).topics[name].partitions) == 4
    assert name in admin.list_topics(timeout=10).topics
    admin.delete_topics([name])[name].result(10)
    assert name not in admin.list_topics(timeout=10).topics


def test_kcat_lists_topics(cluster: Cluster) -> None:
    topic = cluster.create_topic(partitions=3)
    client = KcatClient(cluster.bootstrap)
    listed = json.loads(client.run("-L", "-J").stdout)
    assert len(next(found for found in listed["topics"] if found["topic"] == topic)["partitions"]) == 3
    assert [broker["name"] for broker in listed["brokers"]] == [cluster.bootstrap]
    only = json.loads(client.run("-L", "-J", "-t", topic).stdout)
    assert [found["topic"] for found in only["topics"]] == [topic]


def test_kafka_python_admin(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        name = new_name()
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
        assert name in admin.list_topics()
        assert len(admin.describe_topics([name])[0]["partitions"]) == 2
        admin.create_partitions({name: 3})
        assert len(admin.describe_topics([name])[0]["partitions"]) == 3
        admin.delete_topics([name])
        assert name not in admin.list_topics()
    finally:
        admin.close()


def test_aiokafka_admin(cluster: Cluster) -> None:
    async def scenario(name: str) -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=cluster.bootstrap)
        await admin.start()
        try:
            await admin.create_topics([AioNewTopic(name, 2, 1)])
            assert name in await admin.list_topics()
            assert len((await admin.describe_topics([name]))[0]["partitions"]) == 2
            await admin.delete_topics([name])
            assert name not in await admin.list_topics()
        finally:
            await admin.close()

    asyncio.run(scenario(new_name()))
