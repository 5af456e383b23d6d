"""Names that nobody declared: Kafka's own, which are accepted at Kafka's default only, and mistakes.

The catalogue of Kafka's settings and difflib are loaded here and only when such a name turns up, so that an ordinary
start does not pay for them.
"""

from collections.abc import Iterable

from hightide.metadata.settings.broker import BROKER_SETTINGS
from hightide.metadata.settings.definition import SettingType, same_value
from hightide.metadata.settings.topic import TOPIC_SETTINGS


def judge_broker_setting(name: str, text: str) -> str | None:
    """Why a broker setting that is not declared is refused; None when it says what Kafka does anyway."""
    from hightide.metadata.settings.catalogue import BROKER

    if name in BROKER:
        kind, default = BROKER[name]
        if same_value(SettingType[kind], text, default or ""):
            return None
        allowed = f"only Kafka's default ({default}) is accepted, not '{text}'" if default else "it cannot be set"
        return f"'{name}' is a Kafka setting that hightide does not honour: {allowed}"
    if name in TOPIC_SETTINGS:
        names = TOPIC_SETTINGS[name].broker_names
        return f"'{name}' is a setting of topics" + (f"; the broker's default for it is '{names[0]}'" if names else "")
    return f"unknown setting '{name}'{did_you_mean(name, [*BROKER_SETTINGS, *BROKER])}"


def kafka_broker_names() -> Iterable[str]:
    """All broker settings of Kafka."""
    from hightide.metadata.settings.catalogue import BROKER

    return BROKER


def unknown_topic_setting(name: str) -> str:
    """The refusal of a topic setting that does not exist, in Kafka's words and with the nearest name."""
    return f"Unknown topic config name: {name}{did_you_mean(name, TOPIC_SETTINGS)}"


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """A question that names the nearest known name, or nothing."""
    from difflib import get_close_matches

    nearest = get_close_matches(name, list(names), 1)
    return f" (did you mean '{nearest[0]}'?)" if nearest else ""
