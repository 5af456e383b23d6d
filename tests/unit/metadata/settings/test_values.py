"""Layers of values: topic over dynamic broker over dynamic default over static over default, and how they are told."""

import pytest

from hightide.metadata.settings.broker_values import BrokerSettings, Given, Source
from hightide.metadata.settings.definition import INT64_MAX, SettingError
from hightide.metadata.settings.described import describe_broker, describe_cluster, describe_topic
from hightide.metadata.settings.topic_values import TopicSettings, check_topic_settings


def test_a_topic_without_settings_has_the_defaults() -> None:
    topic = TopicSettings({}, BrokerSettings())
    assert (topic.retention_ms, topic.segment_ms, topic.flush_ms) == (604800000, 604800000, INT64_MAX)
    assert topic.durability == "fsync"
    assert topic.cleanup_policy == ["delete"]


def test_each_layer_covers_the_one_below() -> None:
    static = {"log.retention.ms": "4", "log.segment.bytes": "4000000"}
    default = {"log.retention.ms": "3"}
    broker = {"log.retention.ms": "2"}
    topic = {"retention.ms": "1"}
    layers = BrokerSettings(static)
    assert TopicSettings({}, layers).retention_ms == 4
    layers = layers.with_dynamic(default, {})
    assert TopicSettings({}, layers).retention_ms == 3
    layers = layers.with_dynamic(default, broker)
    assert layers.log_retention_ms == TopicSettings({}, layers).retention_ms == 2
    assert TopicSettings(topic, layers).retention_ms == 1
    assert TopicSettings(topic, layers).segment_bytes == 4000000


@pytest.mark.parametrize(
    ("static", "milliseconds"),
    [
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "5"}, 5),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_hours_and_minutes_stand_in_for_milliseconds(static: dict[str, str], milliseconds: int) -> None:
    broker = BrokerSettings(static)
    assert broker.log_retention_ms == milliseconds
    assert TopicSettings({}, broker).retention_ms == milliseconds


def test_roll_times_in_hours() -> None:
    topic = TopicSettings({}, BrokerSettings({"log.roll.hours": "1", "log.roll.jitter.hours": "1"}))
    assert (topic.segment_ms, topic.segment_jitter_ms) == (3_600_000, 3_600_000)


def test_the_dev_profile_shortens_timers_below_what_somebody_said() -> None:
    assert BrokerSettings({"hightide.profile": "dev"}).log_segment_delete_delay_ms == 1000
    said = {"hightide.profile": "dev", "log.segment.delete.delay.ms": "7"}
    assert BrokerSettings(said).log_segment_delete_delay_ms == 7


def test_min_insync_replicas_is_never_taken_from_a_brokers_file() -> None:
    """R23: two brokers with different files would disagree about what may be elected."""
    broker = BrokerSettings({"min.insync.replicas": "2"})
    assert TopicSettings({}, broker).min_insync_replicas == 1
    assert TopicSettings({}, broker.with_dynamic({"min.insync.replicas": "3"}, {})).min_insync_replicas == 3


def test_described_topic_settings_tell_source_and_synonyms() -> None:
    broker = BrokerSettings(
        {"log.segment.bytes": "2000000"},
        dynamic_default={"log.segment.bytes": "3000000"},
        dynamic_broker={"log.segment.bytes": "4000000"},
    )
    described = {d.name: d for d in describe_topic({"segment.bytes": "5000000"}, broker)}
    assert len(described) == 36
    segment = described["segment.bytes"]
    assert (segment.value, segment.source, segment.read_only, segment.is_sensitive) == ("5000000", 1, False, False)
    assert segment.type.name == "INT"
    assert segment.synonyms == (
        Given("segment.bytes", "5000000", Source.DYNAMIC_TOPIC_CONFIG),
        Given("log.segment.bytes", "4000000", Source.DYNAMIC_BROKER_CONFIG),
        Given("log.segment.bytes", "3000000", Source.DYNAMIC_DEFAULT_BROKER_CONFIG),
        Given("log.segment.bytes", "2000000", Source.STATIC_BROKER_CONFIG),
        Given("log.segment.bytes", "1073741824", Source.DEFAULT_CONFIG),
    )
    untouched = described["delete.retention.ms"]
    assert (untouched.value, untouched.source) == ("86400000", Source.DEFAULT_CONFIG)
    assert untouched.synonyms == (Given("log.cleaner.delete.retention.ms", "86400000", Source.DEFAULT_CONFIG),)
    assert described["leader.replication.throttled.replicas"].value == ""
    assert described["preallocate"].value == "false"


def test_retention_from_hours_says_so() -> None:
    (retention,) = describe_topic({}, BrokerSettings({"log.retention.hours": "1"}), ["retention.ms", "nonsense"])
    assert (retention.value, retention.source) == ("3600000", Source.STATIC_BROKER_CONFIG)
    assert retention.synonyms[0] == Given("log.retention.hours", "1", Source.STATIC_BROKER_CONFIG)


def test_described_broker_settings() -> None:
    broker = BrokerSettings({"node.id": "3"}, dynamic_default={"max.connections": "5"})
    described = {d.name: d for d in describe_broker(broker)}
    assert (described["node.id"].value, described["node.id"].source, described["node.id"].read_only) == ("3", 4, True)
    connections = described["max.connections"]
    assert (connections.value, connections.source, connections.read_only) == ("5", 3, False)
    assert described["advertised.listeners"].value is None
    assert described["advertised.listeners"].source is Source.DEFAULT_CONFIG


def test_the_clusters_defaults_are_described_alone() -> None:
    (only,) = describe_cluster(BrokerSettings({"node.id": "3"}, dynamic_default={"max.connections": "5"}))
    assert (only.name, only.value, only.source) == ("max.connections", "5", Source.DYNAMIC_DEFAULT_BROKER_CONFIG)
    assert describe_cluster(BrokerSettings()) == []


def test_checking_finds_the_first_mistake() -> None:
    check_topic_settings({"retention.ms": "1", "hightide.durability": "replicated"})
    with pytest.raises(
        SettingError, match=r"Unknown topic config name: retention\.m \(did you mean 'retention\.ms'\?\)"
    ):
        check_topic_settings({"retention.m": "1"})
    with pytest.raises(SettingError, match="majority topics need a cluster"):
        check_topic_settings({"hightide.commit.rule": "majority"})
