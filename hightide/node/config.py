"""The settings a process starts with: flag over environment over file over default (DESIGN section 8, T11).

Everything that is wrong is reported at once, by name and place, and nothing starts. Pure: whoever calls reads the file
and hands over the environment.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from hightide.metadata.settings.broker import BROKER_SETTINGS
from hightide.metadata.settings.broker_values import BrokerSettings
from hightide.metadata.settings.definition import SettingError
from hightide.metadata.settings.listeners import (
    BrokerAddress,
    ListenerAddress,
    parse_broker,
    parse_listener,
    parse_protocol_map,
)
from hightide.metadata.settings.topic_values import TopicSettings
from hightide.node.configuration_text import parse_properties, parse_toml
from hightide.storage.settings import LogSettings

ENVIRONMENT_PREFIX: Final = "HIGHTIDE_"
EVERY_ADDRESS: Final = ("0.0.0.0", "::")
NOT_SETTINGS: Final = ("BOOTSTRAP", "CONFORMANCE_BOOTSTRAP", "INTERPRETED", "LOG_LEVEL", "PORT")


class Origin(StrEnum):
    """Where a static value was said."""

    FLAG = "flag"
    ENVIRONMENT = "environment"
    FILE = "file"
    PROFILE = "profile"
    DEFAULT = "default"


class ConfigError(Exception):
    """Settings that cannot be used; `problems` has a sentence for each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Said(NamedTuple):
    text: str
    origin: Origin
    place: str


_NOTHING_SAID: Final[Mapping[str, _Said]] = {}


class Settings(BrokerSettings):
    """A broker's settings, and where each came from."""

    _origins: Mapping[str, _Said] = _NOTHING_SAID

    @classmethod
    def load(
        cls,
        file: str | None,
        environment: Mapping[str, str],
        flags: Mapping[str, str],
        *,
        file_name: str = "server.properties",
    ) -> "Settings":
        """Settings from the text of a file (TOML when its name says so), the environment and flags by setting name."""
        said: dict[str, _Said] = {}
        try:
            said.update(_from_file(file, file_name))
        except SettingError as error:
            raise ConfigError([f"{file_name}: {error}"]) from None
        said.update(_from_environment(environment))
        said.update((name, _Said(text, Origin.FLAG, f"flag {name}")) for name, text in flags.items())
        problems = list(_judge(said))
        if problems:
            raise ConfigError(problems)
        settings = cls({name: value.text for name, value in said.items() if name in BROKER_SETTINGS})
        settings._origins = said
        problems = list(settings._contradictions())
        if problems:
            raise ConfigError(problems)
        return settings

    def with_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> "Settings":
        """The same static settings under other dynamic ones."""
        settings = super().with_dynamic(dynamic_default, dynamic_broker)
        settings._origins = self._origins
        return settings

    def origin(self, name: str) -> Origin:
        """Where the static value of a setting was said; SettingError when it is no setting."""
        self.get(name)
        if name in self._origins:
            return self._origins[name].origin
        return Origin.PROFILE if name in self.profile_values else Origin.DEFAULT

    def place(self, name: str) -> str:
        """The same for people: the file's name, the variable, the flag."""
        origin = self.origin(name)
        if origin is Origin.PROFILE:
            return f"hightide.profile={self.profile}"
        return self._origins[name].place if origin is not Origin.DEFAULT else origin.value

    @property
    def log_directory(self) -> str:
        """The one directory of all data."""
        return self.log_dirs[0]

    def listener_addresses(self) -> list[ListenerAddress]:
        """Where to listen."""
        return [parse_listener(text) for text in self.listeners]

    def advertised_addresses(self) -> list[ListenerAddress]:
        """What clients are told, before port 0 has become a real one; a listener not advertised is left out."""
        addresses = [parse_listener(text) for text in self.advertised_listeners or self.listeners]
        return [address for address in addresses if address.name not in self.controller_listener_names]

    @property
    def is_broker(self) -> bool:
        """Whether this process keeps data."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether this process is one of the controllers."""
        return "controller" in self.process_roles

    def voters(self) -> list[BrokerAddress]:
        """The controllers; nobody when this process is its own."""
        return [parse_broker(text) for text in self.controller_quorum_voters]

    @property
    def inter_broker_listener(self) -> str:
        """The listener that brokers use among themselves."""
        if self.inter_broker_listener_name is not None:
            return self.inter_broker_listener_name.upper()
        names = [address.name for address in self.advertised_addresses()]
        return "PLAINTEXT" if "PLAINTEXT" in names or not names else names[0]

    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener. As in Kafka, controllers speak PLAINTEXT when the map is not set."""
        protocols = parse_protocol_map(self.listener_security_protocol_map)
        if "listener.security.protocol.map" not in self.static:
            protocols = {**dict.fromkeys(self.controller_listener_names, "PLAINTEXT"), **protocols}
        return protocols

    def _contradictions(self) -> Iterator[str]:
        yield from self._listener_problems()
        yield from self._quorum_problems()
        yield from self._session_problems()
        brokers = [parse_broker(text) for text in self.brokers]
        if brokers and self.node_id not in {broker.node_id for broker in brokers}:
            listed = ", ".join(map(str, brokers))
            yield (
                f"this broker (node.id={self.node_id}) is not in hightide.brokers ({listed}): "
                "add it to the list, or remove the list to run without one"
            )

    def _listener_problems(self) -> Iterator[str]:
        protocols = self.protocols()
        names = set()
        for listener in self.listener_addresses():
            names.add(listener.name)
            protocol = protocols.get(listener.name)
            if protocol is None:
                yield f"listeners: {listener.name} has no protocol in listener.security.protocol.map"
            elif protocol != "PLAINTEXT":
                yield f"listeners: {listener.name} asks for {protocol}, but only PLAINTEXT is available"
            is_for_clients = listener.name not in self.controller_listener_names
            if listener.host in EVERY_ADDRESS and is_for_clients and not self.advertised_listeners:
                yield (
                    f"listeners: {listener} listens on every address: "
                    "set advertised.listeners to the one that clients shall use"
                )
        for listener in self.advertised_addresses():
            if listener.name not in names:
                yield f"advertised.listeners: {listener.name} is not one of listeners"
        if self.is_broker and not self.advertised_addresses():
            yield "listeners: all of them are the controller's: a broker needs one for its clients"
        if self.is_broker and self.inter_broker_listener not in {a.name for a in self.advertised_addresses()}:
            yield f"inter.broker.listener.name: {self.inter_broker_listener} is not a listener of this broker"

    def _quorum_problems(self) -> Iterator[str]:
        voters = {voter.node_id for voter in self.voters()}
        listeners = {listener.name for listener in self.listener_addresses()}
        if not voters:
            if not (self.is_broker and self.is_controller):
                yield "process.roles: one role alone needs controller.quorum.voters, the list of the controllers"
            return
        if not self.controller_listener_names:
            yield "controller.quorum.voters: controller.listener.names must say how the controllers are reached"
        if self.is_controller and self.node_id not in voters:
            yield f"controller.quorum.voters: this controller (node.id={self.node_id}) is not one of the voters"
        if not self.is_controller and self.node_id in voters:
            yield f"controller.quorum.voters: node.id={self.node_id} is a voter, but process.roles has no controller"
        for name in self.controller_listener_names:
            if self.is_controller and name not in listeners:
                yield f"controller.listener.names: {name} is not one of listeners"
            if not self.is_controller and name in listeners:
                yield f"controller.listener.names: {name} is in listeners, but process.roles has no controller"

    def _session_problems(self) -> Iterator[str]:
        if self.broker_heartbeat_interval_ms >= self.broker_session_timeout_ms:
            yield "broker.heartbeat.interval.ms must be smaller than broker.session.timeout.ms"
        if self.lease_ms > self.longest_lease_ms:
            yield (
                f"hightide.lease.ms={self.lease_ms} is too long: a session of {self.broker_session_timeout_ms} ms less "
                f"{self.lease_drift_percent} % drift allows {self.longest_lease_ms} (R16)"
            )


def environment_name(name: str) -> str:
    """The environment variable of a setting; own keys take the prefix once."""
    return ENVIRONMENT_PREFIX + name.removeprefix("hightide.").replace(".", "_").upper()


def log_settings(topic: TopicSettings) -> LogSettings:
    """What the logs of a topic are told."""
    return LogSettings(
        segment_bytes=topic.segment_bytes,
        segment_ms=topic.segment_ms,
        segment_jitter_ms=topic.segment_jitter_ms,
        segment_index_bytes=topic.segment_index_bytes,
        index_interval_bytes=topic.index_interval_bytes,
        retention_ms=topic.retention_ms,
        retention_bytes=topic.retention_bytes,
        max_message_bytes=topic.max_message_bytes,
        log_append_time=topic.message_timestamp_type == "LogAppendTime",
        message_timestamp_before_max_ms=topic.message_timestamp_before_max_ms,
        message_timestamp_after_max_ms=topic.message_timestamp_after_max_ms,
        compression_type=topic.compression_type,
        compression_gzip_level=topic.compression_gzip_level,
        compression_lz4_level=topic.compression_lz4_level,
        compression_zstd_level=topic.compression_zstd_level,
        flush_messages=topic.flush_messages,
        flush_ms=topic.flush_ms,
        file_delete_delay_ms=topic.file_delete_delay_ms,
        delete_policy="delete" in topic.cleanup_policy,
        compact_policy="compact" in topic.cleanup_policy,
        delete_retention_ms=topic.delete_retention_ms,
        min_compaction_lag_ms=topic.min_compaction_lag_ms,
        max_compaction_lag_ms=topic.max_compaction_lag_ms,
        min_cleanable_dirty_ratio=topic.min_cleanable_dirty_ratio,
        synced_before_acknowledged=topic.durability == "fsync",
    )


def _from_file(text: str | None, name: str) -> Iterator[tuple[str, _Said]]:
    if text is not None:
        values = parse_toml(text) if name.endswith(".toml") else parse_properties(text)
        for key, value in values.items():
            yield key, _Said(value, Origin.FILE, name)


def _from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, _Said]]:
    variables = {name: text for name, text in environment.items() if name.startswith(ENVIRONMENT_PREFIX)}
    if not variables:
        return
    names = {environment_name(name): name for name in BROKER_SETTINGS}
    for variable, text in sorted(variables.items()):
        if variable not in names and _not_a_setting(variable):
            continue
        name = names.get(variable) or _kafka_name(variable)
        yield name, _Said(text, Origin.ENVIRONMENT, variable)


def _not_a_setting(variable: str) -> bool:
    """Variables with our prefix that mean something else: the tools' own, and what Kubernetes sets for a service."""
    rest = variable.removeprefix(ENVIRONMENT_PREFIX)
    return rest in NOT_SETTINGS or rest.startswith(("PORT_", "SERVICE_"))


def _kafka_name(variable: str) -> str:
    """The name behind a variable that is none of ours: a Kafka setting, or a mistake spelled as a setting."""
    from hightide.metadata.settings.unhonoured import kafka_broker_names

    names = {environment_name(name): name for name in kafka_broker_names()}
    return names.get(variable, variable.removeprefix(ENVIRONMENT_PREFIX).lower().replace("_", "."))


def _judge(said: Mapping[str, _Said]) -> Iterator[str]:
    for name, value in said.items():
        setting = BROKER_SETTINGS.get(name)
        problem = None
        if setting is None:
            from hightide.metadata.settings.unhonoured import judge_broker_setting

            problem = judge_broker_setting(name, value.text)
        else:
            try:
                setting.parse(value.text)
            except SettingError as error:
                problem = str(error)
        if problem is not None:
            yield f"{value.place}: {problem}"
