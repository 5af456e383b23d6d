"""Values are read, and refused, as Kafka's ConfigDef does it; the sentences were taken from Kafka 4.3.1."""

import pytest

from hightide.metadata.settings.definition import SettingError, SettingType, parse, same_value
from hightide.metadata.settings.topic import TOPIC_SETTINGS

REFUSED = [
    ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "1_000", "Invalid value 1_000 for configuration retention.ms: Not a number of type LONG"),
    ("segment.bytes", "10", "Invalid value 10 for configuration segment.bytes: Value must be at least 1048576"),
    ("flush.ms", "9" * 20, f"Invalid value {'9' * 20} for configuration flush.ms: Not a number of type LONG"),
    ("segment.bytes", "0x10", "Invalid value 0x10 for configuration segment.bytes: Not a number of type INT"),
    (
        "compression.type",
        "GZIP",
        "Invalid value GZIP for configuration compression.type: "
        "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer",
    ),
    (
        "unclean.leader.election.enable",
        "no",
        "Invalid value no for configuration unclean.leader.election.enable: Expected value to be either true or false",
    ),
    (
        "compression.gzip.level",
        "0",
        "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
    ),
    (
        "compression.lz4.level",
        "18",
        "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17",
    ),
    (
        "leader.replication.throttled.replicas",
        "0:1,*",
        "Invalid value [0:1, *] for configuration leader.replication.throttled.replicas: "
        "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "sentence"), REFUSED)
def test_refusals_are_kafkas(name: str, text: str, sentence: str) -> None:
    with pytest.raises(SettingError) as refused:
        TOPIC_SETTINGS[name].parse(text)
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("retention.ms", " 5 ", 5),
        ("segment.bytes", "+1048576", 1048576),
        ("retention.bytes", "-5", -5),
        ("unclean.leader.election.enable", "TRUE", True),
        ("cleanup.policy", "", []),
        ("cleanup.policy", "compact,delete", ["compact", "delete"]),
        ("cleanup.policy", "delete, delete", ["delete", "delete"]),
        ("leader.replication.throttled.replicas", "*", ["*"]),
        ("leader.replication.throttled.replicas", "0:1, 1:2", ["0:1", "1:2"]),
        ("min.cleanable.dirty.ratio", "0.50", 0.5),
    ],
)
def test_values_that_kafka_accepts(name: str, text: str, value: object) -> None:
    assert TOPIC_SETTINGS[name].parse(text) == value


@pytest.mark.parametrize(
    ("name", "text"), [("preallocate", "true"), ("remote.storage.enable", "true"), ("local.retention.ms", "1")]
)
def test_what_nobody_does_is_accepted_at_its_default_only(name: str, text: str) -> None:
    setting = TOPIC_SETTINGS[name]
    assert setting.default is not None
    setting.parse(setting.default)
    with pytest.raises(SettingError, match=f"configuration {name}: hightide accepts only Kafka's default"):
        setting.parse(text)


def test_a_long_number_is_refused_before_it_is_computed() -> None:
    with pytest.raises(SettingError, match="Not a number"):
        parse("x", SettingType.LONG, "9" * 100_000)


def test_texts_with_one_meaning_are_the_same() -> None:
    assert same_value(SettingType.INT, "+08", "8")
    assert same_value(SettingType.BOOLEAN, "TRUE", "true")
    assert same_value(SettingType.LIST, "a, b", "a,b")
    assert not same_value(SettingType.INT, "eight", "8")
