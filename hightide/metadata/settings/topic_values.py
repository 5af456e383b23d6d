"""The settings that count for one topic: its own over the broker's over the defaults."""

from collections.abc import Iterator, Mapping
from typing import Final

from hightide.metadata.settings.broker import BROKER_SETTINGS
from hightide.metadata.settings.broker_values import BrokerSettings, Given, Source, attribute, milliseconds
from hightide.metadata.settings.definition import Setting, SettingError, Value
from hightide.metadata.settings.topic import TOPIC_SETTINGS
from hightide.metadata.settings.unhonoured import unknown_topic_setting


class TopicSettings:
    """What counts for a topic, as attributes under Kafka's names. Immutable; a change makes a new one."""

    cleanup_policy: list[str]
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: list[str]
    index_interval_bytes: int
    leader_replication_throttled_replicas: list[str]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    commit_rule: str
    durability: str
    placement: str

    def __init__(self, overrides: Mapping[str, str], broker: BrokerSettings) -> None:
        self._values = dict(_without_overrides(broker))
        for name, text in overrides.items():
            if name in TOPIC_SETTINGS:
                self._values[name] = TOPIC_SETTINGS[name].parse(text)
        for name, value in self._values.items():
            setattr(self, _ATTRIBUTES[name], value)

    def get(self, name: str) -> Value:
        """The value of one setting, typed; SettingError when topics do not have it."""
        if name not in self._values:
            raise SettingError(unknown_topic_setting(name))
        return self._values[name]


_ATTRIBUTES: Final = {name: attribute(name) for name in TOPIC_SETTINGS}


def _without_overrides(broker: BrokerSettings) -> dict[str, Value]:
    """What a topic without own settings gets: resolved once for all topics of a broker's settings."""
    if not broker.topic_values:
        broker.topic_values.update((name, effective(s, {}, broker)) for name, s in TOPIC_SETTINGS.items())
    return broker.topic_values


def effective(setting: Setting, overrides: Mapping[str, str], broker: BrokerSettings) -> Value:
    """The value of one setting for a topic."""
    first = next(given(setting, overrides, broker), None)
    if first is None:
        return None if setting.default is None else setting.parse(setting.default)
    return value_of(setting, first)


def given(setting: Setting, overrides: Mapping[str, str], broker: BrokerSettings) -> Iterator[Given]:
    """Everything that was said about one setting of a topic, the strongest first: its synonyms in Kafka's words."""
    if setting.name in overrides:
        yield Given(setting.name, overrides[setting.name], Source.DYNAMIC_TOPIC_CONFIG)
    yield from broker.given(*setting.broker_names)
    if setting.broker_names and setting.default is not None and setting.broker_names[0] not in BROKER_SETTINGS:
        yield Given(
            setting.broker_names[0], setting.default, Source.DEFAULT_CONFIG
        )  # a Kafka name that we do not honour


def value_of(setting: Setting, said: Given) -> Value:
    """What was said, as this topic setting's value: hours become milliseconds, any negative time means no limit."""
    if said.source is Source.DYNAMIC_TOPIC_CONFIG or said.name == setting.name:
        return setting.parse(said.text)
    if setting.name.endswith(".ms"):
        return max(-1, milliseconds(said.name, int(said.text)))
    return setting.parse(said.text)


def check_topic_settings(overrides: Mapping[str, str]) -> None:
    """SettingError for the first unknown name or bad value."""
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise SettingError(unknown_topic_setting(name))
        setting.parse(text)
    _check_lags(overrides)


def _check_lags(overrides: Mapping[str, str]) -> None:
    names = ("min.compaction.lag.ms", "max.compaction.lag.ms")
    least, most = (int(overrides.get(name, TOPIC_SETTINGS[name].default or 0)) for name in names)
    if least > most:
        raise SettingError(f"conflict topic config setting {names[0]} ({least}) > {names[1]} ({most})")
