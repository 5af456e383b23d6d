"""Advertised is what works: each API in exactly Kafka's versions, and each of those versions answers."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.cluster import Cluster, new_name
from tests.conformance.raw_connection import API_KEYS
from tests.conformance.record_batches import build_batch, read_batches

# Kafka 4.3's valid versions of what a broker without groups and transactions serves.
VERSIONS: dict[str, tuple[int, int]] = {
    "produce": (0, 13),  # 0-2 are advertised and refused: librdkafka turns features off otherwise (KAFKA-18659)
    "fetch": (4, 18),
    "list_offsets": (1, 11),
    "metadata": (0, 13),
    "api_versions": (0, 4),
    "create_topics": (2, 7),
    "delete_topics": (1, 6),
    "delete_records": (0, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (2, 4),
    "describe_configs": (1, 4),
    "alter_configs": (0, 2),
    "describe_log_dirs": (1, 5),
    "create_partitions": (0, 3),
    "incremental_alter_configs": (0, 1),
    "describe_cluster": (0, 2),
    "describe_producers": (0, 0),
    "list_config_resources": (0, 1),
    "describe_topic_partitions": (0, 0),
}
LOWEST_SERVED = {"produce": 3}
EVERY_VERSION = [
    (api, version)
    for api, (lowest, highest) in VERSIONS.items()
    for version in range(LOWEST_SERVED.get(api, lowest), highest + 1)
]


@pytest.mark.covers("T18")
@pytest.mark.parametrize("api", VERSIONS)
def test_kafkas_versions_are_advertised(cluster: Cluster, api: str) -> None:
    assert cluster.versions[API_KEYS[api]] == VERSIONS[api]


def test_every_version_of_apiversions_says_the_same(cluster: Cluster) -> None:
    for version in range(5):
        answer = cluster.ask("api_versions", version, client_software_name="test", client_software_version="1.0")
        assert answer.error_code == ErrorCode.none
        assert {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys} == cluster.versions


def request_fields(cluster: Cluster, api: str, version: int) -> dict[str, Any]:
    """A request that must succeed, with the fields of all versions together."""
    topic = cluster.create_topic()
    topic_id = cluster.describe_topic(topic).topic_id
    broker = cluster.metadata().brokers[0].node_id
    partition = {
        "partition": 0,
        "partition_index": 0,
        "current_leader_epoch": -1,
        "leader_epoch": 0,
        "fetch_offset": 0,
        "partition_max_bytes": 100_000,
        "timestamp": -1,
        "offset": 0,
    }
    name_of = {
        "fetch": "topic",
        "offset_for_leader_epoch": "topic",
        "describe_log_dirs": "topic",
    }.get(api, "name")
    by_partition = [{name_of: topic, "topic_id": topic_id, "partitions": [partition]}]
    settings = [{"name": "retention.ms", "value": "1000", "config_operation": 0}]
    new_topic = {
        "name": new_name(),
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    produced = [{"index": 0, "records": build_batch([b"x"])}]
    every: dict[str, dict[str, Any]] = {
        "produce": {
            "transactional_id": None,
            "acks": -1,
            "timeout": 5000,
            "topic_data": [{"name": topic, "topic_id": topic_id, "partition_data": produced}],
        },
        "fetch": {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 100_000,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": by_partition,
            "forgotten_topics_data": [],
            "rack_id": "",
        },
        "list_offsets": {"replica_id": -1, "isolation_level": 0, "topics": by_partition, "timeout": 1000},
        "metadata": {
            "topics": [{"name": topic, "topic_id": None}],
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        },
        "api_versions": {"client_software_name": "test", "client_software_version": "1"},
        "create_topics": {"topics": [new_topic], "timeout": 5000, "validate_only": False},
        "delete_topics": {
            "topics": [{"name": topic, "topic_id": None}],
            "topic_names": [topic],
            "timeout": 5000,
        },
        "delete_records": {"topics": by_partition, "timeout": 5000},
        "init_producer_id": {
            "transactional_id": None,
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        },
        "offset_for_leader_epoch": {"replica_id": -1, "topics": by_partition},
        "describe_configs": {
            "resources": [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}],
            "include_synonyms": True,
            "include_documentation": True,
        },
        "alter_configs": {
            "resources": [{"resource_type": 2, "resource_name": topic, "configs": settings}],
            "validate_only": False,
        },
        "incremental_alter_configs": {
            "resources": [{"resource_type": 2, "resource_name": topic, "configs": settings}],
            "validate_only": False,
        },
        "describe_log_dirs": {"topics": [{"topic": topic, "partitions": [0]}]},
        "create_partitions": {
            "topics": [{"name": topic, "count": 2, "assignments": [{"broker_ids": [broker]}]}],
            "timeout": 5000,
            "validate_only": False,
        },
        "describe_cluster": {
            "include_cluster_authorized_operations": True,
            "endpoint_type": 1,
            "include_fenced_brokers": False,
        },
        "describe_producers": {"topics": [{"name": topic, "partition_indexes": [0]}]},
        "list_config_resources": {"resource_types": []},
        "describe_topic_partitions": {
            "topics": [{"name": topic}],
            "response_partition_limit": 100,
            "cursor": None,
        },
    }
    return every[api]


def error_codes(answer: Any) -> list[ErrorCode]:
    """Every error code anywhere in a response."""
    found: list[ErrorCode] = []
    for name in answer.__dataclass_fields__:
        value = getattr(answer, name)
        if name == "error_code":
            found.append(value)
        for part in value if isinstance(value, tuple) else (value,):
            if hasattr(part, "__dataclass_fields__"):
                found += error_codes(part)
    return found


@pytest.mark.covers("T18")
@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=[f"{api}-v{version}" for api, version in EVERY_VERSION])
def test_every_version_answers(cluster: Cluster, api: str, version: int) -> None:
    answer = cluster.ask(api, version, **request_fields(cluster, api, version))
    assert set(error_codes(answer)) <= {ErrorCode.none}


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_of_fetch_returns_the_same_bytes(cluster: Cluster, version: int) -> None:
    fields = request_fields(cluster, "fetch", version)
    (topic,) = fields["topics"]
    data = [
        {
            "name": topic["topic"],
            "topic_id": topic["topic_id"],
            "partition_data": [{"index": 0, "records": build_batch([b"x"])}],
        }
    ]
    cluster.ask("produce", 9, transactional_id=None, acks=-1, timeout=5000, topic_data=data)
    answer = cluster.ask("fetch", version, **fields)
    part = answer.responses[0].partitions[0]
    assert (part.error_code, part.high_watermark) == (ErrorCode.none, 1)
    assert [batch.base_offset for batch in read_batches(part.records)] == [0]
