"""What is declared agrees with the facts about Kafka, except where the difference has a reason."""

import json
from pathlib import Path

import pytest

from hightide.metadata.settings import catalogue
from hightide.metadata.settings.broker import BROKER_SETTINGS, OWN_DEFAULTS, PROFILES
from hightide.metadata.settings.broker_values import BrokerSettings, attribute
from hightide.metadata.settings.definition import SettingError, SettingType
from hightide.metadata.settings.topic import TOPIC_SETTINGS
from hightide.metadata.settings.topic_values import TopicSettings

DYNAMIC_QUOTAS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Kafka knows them as dynamic settings alone, so the table of its configuration file has them not."""
FACTS = json.loads((Path(__file__).parents[4] / "codegen" / "kafka-4.3-configs.json").read_text())


def test_every_topic_setting_of_kafka_is_declared_with_its_type_and_default() -> None:
    declared = {
        (setting.name, setting.type.name, setting.default)
        for setting in TOPIC_SETTINGS.values()
        if not setting.name.startswith("hightide.")
    }
    assert declared == {(row["name"], row["type"], row["default"]) for row in FACTS["topic"]}


def test_broker_settings_have_kafkas_type_and_default_unless_a_reason_is_given() -> None:
    kafka = {row["name"]: row for row in FACTS["broker"]}
    kafka |= {name: {"type": "LONG", "default": str(2**63 - 1)} for name in DYNAMIC_QUOTAS}
    for name, setting in BROKER_SETTINGS.items():
        if name.startswith("hightide."):
            continue
        assert setting.type.name == kafka[name]["type"]
        assert (setting.default == kafka[name]["default"]) == (name not in OWN_DEFAULTS), name


@pytest.mark.parametrize("setting", [*TOPIC_SETTINGS.values(), *BROKER_SETTINGS.values()], ids=repr)
def test_a_default_is_a_value_and_a_sentence_explains_it(setting: object) -> None:
    assert isinstance(setting, type(TOPIC_SETTINGS["preallocate"]))
    assert setting.documentation.endswith(".")
    if setting.default is not None:
        setting.parse(setting.default)


@pytest.mark.parametrize("values", PROFILES.values(), ids=PROFILES)
def test_profiles_set_known_settings_to_valid_values(values: dict[str, str]) -> None:
    for name, text in values.items():
        BROKER_SETTINGS[name].parse(text)


def test_the_catalogue_holds_all_of_kafka() -> None:
    assert len(catalogue.TOPIC) == 33
    assert len(catalogue.BROKER) == len(FACTS["broker"])
    assert {kind for kind, _ in catalogue.BROKER.values()} <= set(SettingType.__members__)


def test_every_setting_is_an_attribute_with_a_type() -> None:
    broker = BrokerSettings()
    resolved_elsewhere = {
        "log_dir",
        "log_roll_hours",
        "log_roll_jitter_hours",
        "log_retention_hours",
        "log_retention_minutes",
    }
    assert {attribute(name) for name in BROKER_SETTINGS} - resolved_elsewhere == set(BrokerSettings.__annotations__)
    assert broker.num_partitions == broker.get("num.partitions") == 1
    unavailable = {attribute(name) for name, s in TOPIC_SETTINGS.items() if s.documentation.startswith("Not available")}
    assert {attribute(name) for name in TOPIC_SETTINGS} - unavailable == set(TopicSettings.__annotations__)


def test_asking_for_something_else_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"num\.io\.threads"):
        BrokerSettings().get("num.io.threads")
    with pytest.raises(SettingError, match=r"did you mean 'retention\.ms'"):
        TopicSettings({}, BrokerSettings()).get("retention.msec")
