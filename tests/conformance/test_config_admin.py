"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources as Kafka answers them."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from kafka.admin import ConfigResource as PythonConfigResource
from kafka.admin import ConfigResourceType, KafkaAdminClient
from kio.schema.errors import ErrorCode

from tests.conformance.cluster import Cluster, new_name, produce_fields, settles
from tests.conformance.record_batches import build_batch

TOPIC, BROKER = 2, 4
DYNAMIC_TOPIC, DYNAMIC_BROKER, STATIC_BROKER, DEFAULT = 1, 2, 4, 5
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
BOOLEAN, STRING, INT, LONG, LIST = 1, 2, 3, 5, 7

# name → type, synonym and default of the settings whose default hightide keeps
TOPIC_SETTINGS: dict[str, tuple[int, str | None, str]] = {
    "compression.type": (STRING, "compression.type", "producer"),
    "cleanup.policy": (LIST, "log.cleanup.policy", "delete"),
    "segment.bytes": (INT, "log.segment.bytes", "1073741824"),
    "segment.ms": (LONG, None, "604800000"),
    "segment.jitter.ms": (LONG, None, "0"),
    "segment.index.bytes": (INT, "log.index.size.max.bytes", "10485760"),
    "index.interval.bytes": (INT, "log.index.interval.bytes", "4096"),
    "retention.ms": (LONG, None, "604800000"),
    "retention.bytes": (LONG, "log.retention.bytes", "-1"),
    "max.message.bytes": (INT, "message.max.bytes", "1048588"),
    "message.timestamp.type": (STRING, "log.message.timestamp.type", "CreateTime"),
    "message.timestamp.before.max.ms": (LONG, "log.message.timestamp.before.max.ms", "9223372036854775807"),
    "message.timestamp.after.max.ms": (LONG, "log.message.timestamp.after.max.ms", "3600000"),
    "unclean.leader.election.enable": (BOOLEAN, "unclean.leader.election.enable", "false"),
    "compression.gzip.level": (INT, "compression.gzip.level", "-1"),
    "compression.lz4.level": (INT, "compression.lz4.level", "9"),
    "compression.zstd.level": (INT, "compression.zstd.level", "3"),
    "flush.messages": (LONG, "log.flush.interval.messages", "9223372036854775807"),
    "flush.ms": (LONG, None, "9223372036854775807"),
    "leader.replication.throttled.replicas": (LIST, None, ""),
    "follower.replication.throttled.replicas": (LIST, None, ""),
}


def describe(cluster: Cluster, kind: int, name: str, keys: list[str] | None = None, version: int = 4) -> Any:
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
    fields = {"resources": resources, "include_synonyms": True, "include_documentation": True}
    return cluster.ask("describe_configs", version, **fields).results[0]


def setting(cluster: Cluster, kind: int, name: str, key: str) -> Any:
    return describe(cluster, kind, name, [key]).configs[0]


def alter(cluster: Cluster, kind: int, name: str, *changes: tuple[str, int, str | None], **fields: bool) -> Any:
    configs = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in changes]
    resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
    answer = cluster.ask("incremental_alter_configs", 1, resources=resources, validate_only=False, **fields)
    return answer.responses[0].error_code


def test_topic_settings_have_kafkas_names_types_synonyms_and_defaults(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    described = {config.name: config for config in describe(cluster, TOPIC, topic).configs}
    for name, (kind, synonym, default) in TOPIC_SETTINGS.items():
        config = described[name]
        assert (config.value, config.config_type, config.config_source) == (default, kind, DEFAULT), name
        assert not config.read_only, name
        assert not config.is_sensitive, name
        assert config.documentation, name
        if synonym:
            assert [(s.name, s.value, s.source) for s in config.synonyms] == [(synonym, default, DEFAULT)], name
    assert "min.insync.replicas" in described


def test_a_set_value_says_where_it_comes_from(cluster: Cluster) -> None:
    topic = cluster.create_topic(retention_bytes=12345)
    config = setting(cluster, TOPIC, topic, "retention.bytes")
    assert (config.value, config.config_source) == ("12345", DYNAMIC_TOPIC)
    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("retention.bytes", "12345", DYNAMIC_TOPIC),
        ("log.retention.bytes", "-1", DEFAULT),
    ]


def test_only_the_asked_keys_are_answered(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    keys = ["retention.ms", "no.such.setting", "segment.ms"]
    assert {config.name for config in describe(cluster, TOPIC, topic, keys).configs} == {"retention.ms", "segment.ms"}


def test_synonyms_and_documentation_come_only_when_asked(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    resources = [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": None}]
    fields = {"resources": resources, "include_synonyms": False, "include_documentation": False}
    for config in cluster.ask("describe_configs", 4, **fields).results[0].configs:
        assert config.synonyms == ()
        assert config.documentation is None


def test_broker_settings(cluster: Cluster) -> None:
    broker = str(cluster.metadata().brokers[0].node_id)
    described = {config.name: config for config in describe(cluster, BROKER, broker).configs}
    assert (described["node.id"].value, described["node.id"].config_source) == (broker, STATIC_BROKER)
    assert described["node.id"].read_only
    assert cluster.bootstrap in described["listeners"].value
    assert described["log.retention.bytes"].config_type == LONG
    assert not described["log.retention.bytes"].read_only
    assert described["message.max.bytes"].value == "1048588"
    assert described["num.partitions"].config_type == INT


@pytest.mark.parametrize(
    ("kind", "name", "error"),
    [
        (TOPIC, "no-such-topic", ErrorCode.unknown_topic_or_partition),
        (BROKER, "99", ErrorCode.invalid_request),
        (BROKER, "one", ErrorCode.invalid_request),
        (99, "x", ErrorCode.invalid_request),
    ],
)
def test_describe_is_refused(cluster: Cluster, kind: int, name: str, error: ErrorCode) -> None:
    assert describe(cluster, kind, name).error_code == error


def test_set_and_delete_a_topic_setting(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    assert alter(cluster, TOPIC, topic, ("retention.ms", SET, "5000"), ("segment.ms", SET, "7000")) == ErrorCode.none
    settles(lambda: setting(cluster, TOPIC, topic, "retention.ms").value, "5000")
    assert alter(cluster, TOPIC, topic, ("retention.ms", DELETE, None)) == ErrorCode.none
    settles(lambda: setting(cluster, TOPIC, topic, "retention.ms").config_source, DEFAULT)
    assert setting(cluster, TOPIC, topic, "segment.ms").value == "7000"


def test_append_and_subtract_on_a_list(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    key = "leader.replication.throttled.replicas"
    for operation, value, expected in (
        (APPEND, "0:1", "0:1"),
        (APPEND, "1:1", "0:1,1:1"),
        (SUBTRACT, "0:1", "1:1"),
    ):
        assert alter(cluster, TOPIC, topic, (key, operation, value)) == ErrorCode.none
        settles(lambda: setting(cluster, TOPIC, topic, key).value, expected)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([("no.such.setting", SET, "1")], ErrorCode.invalid_config),
        ([("retention.ms", SET, "soon")], ErrorCode.invalid_config),
        ([("segment.bytes", SET, "3")], ErrorCode.invalid_config),
        ([("max.message.bytes", SET, "-5")], ErrorCode.invalid_config),
        ([("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.invalid_request),
        ([("retention.ms", SET, "77"), ("segment.bytes", SET, "3")], ErrorCode.invalid_config),
    ],
)
def test_a_bad_change_changes_nothing(
    cluster: Cluster, changes: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    topic = cluster.create_topic()
    assert alter(cluster, TOPIC, topic, *changes) == error
    assert setting(cluster, TOPIC, topic, "retention.ms").config_source == DEFAULT


def test_validate_only_changes_nothing(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    configs = [{"name": "retention.ms", "config_operation": SET, "value": "5000"}]
    resources = [{"resource_type": TOPIC, "resource_name": topic, "configs": configs}]
    answer = cluster.ask("incremental_alter_configs", 1, resources=resources, validate_only=True)
    assert answer.responses[0].error_code == ErrorCode.none
    assert setting(cluster, TOPIC, topic, "retention.ms").config_source == DEFAULT


def test_changing_an_unknown_topic_or_a_read_only_broker_setting(cluster: Cluster) -> None:
    broker = str(cluster.metadata().brokers[0].node_id)
    unknown = alter(cluster, TOPIC, new_name(), ("retention.ms", SET, "1"))
    assert unknown == ErrorCode.unknown_topic_or_partition
    assert alter(cluster, BROKER, broker, ("log.dirs", SET, "/elsewhere")) in (
        ErrorCode.invalid_request,
        ErrorCode.invalid_config,
    )


def test_alter_configs_replaces_all(cluster: Cluster) -> None:
    topic = cluster.create_topic(retention_ms=5000, segment_ms=6000)
    configs = [{"name": "retention.bytes", "value": "999"}]
    resources = [{"resource_type": TOPIC, "resource_name": topic, "configs": configs}]
    answer = cluster.ask("alter_configs", 2, resources=resources, validate_only=False)
    assert answer.responses[0].error_code == ErrorCode.none
    keys = ["retention.bytes", "retention.ms", "segment.ms"]
    settles(
        lambda: {config.name: config.config_source for config in describe(cluster, TOPIC, topic, keys).configs},
        {"retention.bytes": DYNAMIC_TOPIC, "retention.ms": DEFAULT, "segment.ms": DEFAULT},
    )


def test_a_dynamic_broker_setting_shows_in_topics_and_goes_again(cluster: Cluster) -> None:
    broker = str(cluster.metadata().brokers[0].node_id)
    topic = cluster.create_topic()
    key = "log.retention.bytes"
    try:
        assert alter(cluster, BROKER, broker, (key, SET, "123456789")) == ErrorCode.none
        settles(lambda: setting(cluster, BROKER, broker, key).value, "123456789")
        assert setting(cluster, BROKER, broker, key).config_source == DYNAMIC_BROKER
        settles(lambda: setting(cluster, TOPIC, topic, "retention.bytes").value, "123456789")
        inherited = setting(cluster, TOPIC, topic, "retention.bytes")
        assert inherited.config_source == DYNAMIC_BROKER
        assert [(s.name, s.source) for s in inherited.synonyms] == [(key, DYNAMIC_BROKER), (key, DEFAULT)]
    finally:
        assert alter(cluster, BROKER, broker, (key, DELETE, None)) == ErrorCode.none
    settles(lambda: setting(cluster, TOPIC, topic, "retention.bytes").value, "-1")


def test_a_changed_limit_takes_effect_without_a_restart(cluster: Cluster) -> None:
    topic = cluster.create_topic()

    def produced() -> Any:
        answer = cluster.ask("produce", 9, **produce_fields(topic, build_batch([b"v" * 2000])))
        return answer.responses[0].partition_responses[0].error_code

    assert alter(cluster, TOPIC, topic, ("max.message.bytes", SET, "1000")) == ErrorCode.none
    settles(produced, ErrorCode.message_too_large)
    assert alter(cluster, TOPIC, topic, ("max.message.bytes", DELETE, None)) == ErrorCode.none
    settles(produced, ErrorCode.none)


def test_list_config_resources(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    broker = str(cluster.metadata().brokers[0].node_id)

    def listed(*kinds: int) -> set[tuple[int, str]]:
        answer = cluster.ask("list_config_resources", 1, resource_types=list(kinds))
        assert answer.error_code == ErrorCode.none
        return {(resource.resource_type, resource.resource_name) for resource in answer.config_resources}

    assert {(TOPIC, topic), (BROKER, broker)} <= listed()
    assert {kind for kind, _ in listed(TOPIC)} == {TOPIC}
    assert listed(BROKER) >= {(BROKER, broker)}
    refused = cluster.ask("list_config_resources", 1, resource_types=[99])
    assert refused.error_code == ErrorCode.unsupported_version
    assert cluster.ask("list_config_resources", 0).config_resources == ()


def test_confluent_admin(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    resource = ConfigResource(ResourceType.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(10)["retention.bytes"].value == "-1"
    entry = ConfigEntry("retention.bytes", "4321", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    assert admin.incremental_alter_configs([change])[change].result(10) is None
    settles(lambda: admin.describe_configs([resource])[resource].result(10)["retention.bytes"].value, "4321")


def test_kafka_python_admin(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.alter_configs([PythonConfigResource(ConfigResourceType.TOPIC, topic, {"retention.bytes": "4321"})])
        asked = PythonConfigResource(ConfigResourceType.TOPIC, topic)
        described = admin.describe_configs([asked], config_filter="all")["topic"][topic]
    finally:
        admin.close()
    assert described["retention.bytes"]["value"] == "4321"
    assert described["retention.bytes"]["config_source"] == "DYNAMIC_TOPIC_CONFIG"
