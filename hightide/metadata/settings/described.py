"""Settings as DescribeConfigs tells them: value, source, type, documentation and synonyms."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from hightide.metadata.settings.broker import BROKER_SETTINGS
from hightide.metadata.settings.broker_values import BrokerSettings, Given, Source
from hightide.metadata.settings.definition import Setting, SettingType, Value
from hightide.metadata.settings.topic import TOPIC_SETTINGS
from hightide.metadata.settings.topic_values import effective, given


class DescribedSetting(NamedTuple):
    """One setting with everything that a client may ask about it."""

    name: str
    value: str | None
    source: Source
    type: SettingType
    documentation: str
    synonyms: tuple[Given, ...]
    read_only: bool = False
    is_sensitive: bool = False


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerSettings, names: Collection[str] | None = None
) -> list[DescribedSetting]:
    """A topic's settings, all of them or those that are asked for; unknown names are left out, as in Kafka."""
    return [
        _described(setting, effective(setting, overrides, broker), tuple(given(setting, overrides, broker)))
        for setting in _wanted(TOPIC_SETTINGS, names)
    ]


def describe_broker(broker: BrokerSettings, names: Collection[str] | None = None) -> list[DescribedSetting]:
    """The settings of a broker by its id."""
    return [
        _described(setting, broker.get(setting.name), tuple(broker.given(setting.name)), read_only=not setting.dynamic)
        for setting in _wanted(BROKER_SETTINGS, names)
    ]


def describe_cluster(broker: BrokerSettings, names: Collection[str] | None = None) -> list[DescribedSetting]:
    """The dynamic defaults of all brokers: only what was set."""
    return [
        _described(
            setting,
            setting.parse(broker.dynamic_default[setting.name]),
            (Given(setting.name, broker.dynamic_default[setting.name], Source.DYNAMIC_DEFAULT_BROKER_CONFIG),),
        )
        for setting in _wanted(BROKER_SETTINGS, names)
        if setting.name in broker.dynamic_default
    ]


def text_of(value: Value) -> str | None:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float):
        return str(value).replace("e+", "E")  # as Java writes large ones
    return None if value is None else str(value)


def _wanted(settings: Mapping[str, Setting], names: Collection[str] | None) -> list[Setting]:
    return [setting for name, setting in settings.items() if names is None or name in names]


def _described(
    setting: Setting, value: Value, synonyms: tuple[Given, ...], *, read_only: bool = False
) -> DescribedSetting:
    source = synonyms[0].source if synonyms else Source.DEFAULT_CONFIG
    return DescribedSetting(
        setting.name, text_of(value), source, setting.type, setting.documentation, synonyms, read_only
    )
