"""The settings of brokers and topics as pages: what is declared in `hightide.metadata.settings`.

What a setting accepts is not written down anywhere but in its check, so the check is asked: with the least and the
greatest number of the type and with zero, or with a word that nobody would use.
"""

from collections.abc import Iterable, Iterator

from hightide.metadata.settings import catalogue
from hightide.metadata.settings.broker import BROKER_SETTINGS, OWN_DEFAULTS, PROFILES
from hightide.metadata.settings.broker_values import CLUSTER_ONLY
from hightide.metadata.settings.cluster import (
    controller_settings,
    quorum_settings,
    replication_settings,
    session_settings,
)
from hightide.metadata.settings.definition import INT32_MAX, INT64_MAX, Setting, SettingError, SettingType
from hightide.metadata.settings.topic import TOPIC_SETTINGS
from hightide.node.config import environment_name
from tools.markdown import code, page, table

PROBES: dict[SettingType, tuple[object, ...]] = {
    SettingType.INT: (-INT32_MAX - 1, 0, INT32_MAX),
    SettingType.LONG: (-INT64_MAX - 1, 0, INT64_MAX),
    SettingType.STRING: ("?",),
}
UNAVAILABLE = "Not available in hightide: "
LARGE = {str(INT32_MAX): "2^31 - 1", str(INT64_MAX): "2^63 - 1"}

BROKER_PREFACE = """\
A value is a flag (`--set NAME=VALUE`), else an environment variable, else in the file of `--config`, else its default.
The variable of `num.partitions` is `{example}`; own settings take the prefix once: `{own}`. A setting
marked *dynamic* can also be changed while the broker runs, for one broker or for all of them, and then counts
over flag, variable and file.
[Operating](../operating.md#settings) tells the rest."""

OF_CLUSTERS = """\
## For several brokers

These are read and checked, and mean something once a broker has others to talk to."""

BROKER_APPENDIX = """\
## Where the default is not Kafka's

{differences}

## Profiles

`hightide.profile` replaces defaults, and nothing else: what is said anywhere still counts.

{profiles}

## All other settings of Kafka

Kafka 4.3 has {count} broker settings. One that is not in the tables above is accepted with Kafka's own default and
refused by name with any other value, so that no file promises what nobody does. A name that Kafka does not have either
is an error that names the nearest one."""

TOPIC_PREFACE = """\
Set with `hightide topic create --set`, `hightide topic alter --set` or any admin client; a change takes effect at once.
What a topic does not set itself comes from the broker setting named beside it, else from the default.

One broker has nobody to replicate to: `min.insync.replicas` above 1 is held to the one replica there is, and the
throttled replicas and `unclean.leader.election.enable` are kept and described, and change nothing until there is a
cluster."""

TOPIC_APPENDIX = """\
## Not available

These keep Kafka's name and default, and refuse every other value.

{unavailable}"""


def broker_page() -> str:
    """docs/reference/broker-settings.md"""
    groups = (quorum_settings, session_settings, replication_settings, controller_settings)
    of_clusters = {setting.name for group in groups for setting in group()}
    return page(
        "Broker settings",
        "`hightide/metadata/settings/broker.py`",
        BROKER_PREFACE.format(example=environment_name("num.partitions"), own=environment_name("hightide.durability")),
        _broker_table(BROKER_SETTINGS.keys() - of_clusters),
        OF_CLUSTERS,
        _broker_table(of_clusters),
        BROKER_APPENDIX.format(
            differences=table(["setting", "ours", "Kafka's", "why"], _differences()),
            profiles=table(["profile", "setting", "default instead"], _profiles()),
            count=len(catalogue.BROKER),
        ),
    )


def _broker_table(names: Iterable[str]) -> str:
    settings = [BROKER_SETTINGS[name] for name in sorted(names)]
    rows = [(code(s.name), s.type.name, _default(s), _accepts(s), _when(s), s.documentation) for s in settings]
    return table(["setting", "type", "default", "accepts", "changes", "what it does"], rows)


def topic_page() -> str:
    """docs/reference/topic-settings.md"""
    available = [s for _, s in sorted(TOPIC_SETTINGS.items()) if not s.documentation.startswith(UNAVAILABLE)]
    rows = [
        (code(s.name), s.type.name, _default(s), _accepts(s), _names(s.broker_names), s.documentation)
        for s in available
    ]
    unavailable = [
        (code(s.name), _default(s), s.documentation.removeprefix(UNAVAILABLE).removesuffix("."))
        for _, s in sorted(TOPIC_SETTINGS.items())
        if s not in available
    ]
    return page(
        "Topic settings",
        "`hightide/metadata/settings/topic.py`",
        TOPIC_PREFACE,
        table(["setting", "type", "default", "accepts", "the broker's", "what it does"], rows),
        TOPIC_APPENDIX.format(unavailable=table(["setting", "the only value", "why"], unavailable)),
    )


def _default(setting: Setting) -> str:
    if setting.default is None:
        return "not set"
    return "empty" if setting.default == "" else code(LARGE.get(setting.default, setting.default))


def _when(setting: Setting) -> str:
    if setting.name in CLUSTER_ONLY:
        return "dynamic, for all brokers"
    return "dynamic" if setting.dynamic else "at a start"


def _accepts(setting: Setting) -> str:
    found = dict.fromkeys(said for probe in PROBES.get(setting.type, ()) for said in _refusal(setting, probe))
    return "; ".join(found)


def _refusal(setting: Setting, probe: object) -> Iterator[str]:
    try:
        setting.parse(str(probe))
    except SettingError as error:
        said = str(error).partition(f"for configuration {setting.name}: ")[2]
        for opening in ("Value must be ", "String must be one of: ", "must be ", "only "):
            if said.startswith(opening):
                yield said.removeprefix(opening)
                return


def _names(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))


def _differences() -> Iterator[tuple[str, str, str, str]]:
    for name, why in sorted(OWN_DEFAULTS.items()):
        kafka = catalogue.BROKER[name][1]
        yield code(name), _default(BROKER_SETTINGS[name]), code(kafka) if kafka else "not set", why


def _profiles() -> Iterator[tuple[str, str, str]]:
    for profile, values in PROFILES.items():
        for name, value in values.items():
            yield code(profile), code(name), code(value)
