"""The values of a broker's settings, layer upon layer: dynamic over dynamic default over static over default.

`BrokerSettings` is immutable: a change of dynamic settings makes a new one, so whoever holds one sees one state.
Attributes carry the resolved values (`log_retention_ms` knows minutes and hours); `get` answers the setting itself.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, NamedTuple, Self

from hightide.metadata.settings.broker import BROKER_SETTINGS, PROFILES
from hightide.metadata.settings.definition import INT64_MAX, SettingError, Value

NOTHING: Final[Mapping[str, str]] = {}
CLUSTER_ONLY: Final = frozenset({"min.insync.replicas", "hightide.durability"})
"""R23: a broker's file does not decide them. Brokers and controllers that disagree on either would lose records."""


class Source(IntEnum):
    """Where a value comes from, numbered as in DescribeConfigs."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5


class Given(NamedTuple):
    """A value that somebody gave: its name, its text, its layer."""

    name: str
    text: str
    source: Source


class BrokerSettings:
    """Every setting of one broker. `static` is what flags, environment and file said, already judged."""

    node_id: int
    process_roles: list[str]
    broker_rack: str | None
    profile: str
    brokers: list[str]
    listeners: list[str]
    advertised_listeners: list[str] | None
    listener_security_protocol_map: str
    source_host: str | None
    cluster_id: str | None
    controller_quorum_voters: list[str]
    controller_listener_names: list[str]
    inter_broker_listener_name: str | None
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_request_timeout_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    session_check_interval_ms: int
    lease_ms: int
    lease_drift_percent: int
    lease_strict: bool
    replica_lag_time_max_ms: int
    replica_fetch_wait_max_ms: int
    replica_fetch_min_bytes: int
    replica_fetch_max_bytes: int
    replica_fetch_response_max_bytes: int
    leader_replication_throttled_rate: int
    follower_replication_throttled_rate: int
    replica_fetch_backoff_ms: int
    placement: str
    create_wait: str
    auto_leader_rebalance_enable: bool
    leader_imbalance_check_interval_seconds: int
    group_min_session_timeout_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_initial_rebalance_delay_ms: int
    offsets_retention_minutes: int
    offsets_retention_check_interval_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int
    max_connections: int
    max_connections_per_ip: int
    connections_max_idle_ms: int
    socket_request_max_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    message_max_bytes: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    producer_id_expiration_ms: int
    durability: str
    commit_rule: str
    log_dirs: list[str]
    log_cleanup_policy: list[str]
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_delete_retention_ms: int
    log_cleaner_min_compaction_lag_ms: int
    log_cleaner_max_compaction_lag_ms: int
    log_cleaner_min_cleanable_ratio: float
    log_segment_bytes: int
    log_segment_delete_delay_ms: int
    log_roll_ms: int
    log_roll_jitter_ms: int
    log_retention_ms: int
    log_retention_bytes: int
    log_retention_check_interval_ms: int
    log_index_interval_bytes: int
    log_index_size_max_bytes: int
    log_flush_interval_messages: int
    log_flush_interval_ms: int
    log_message_timestamp_type: str
    log_message_timestamp_before_max_ms: int
    log_message_timestamp_after_max_ms: int

    def __init__(
        self,
        static: Mapping[str, str] = NOTHING,
        *,
        dynamic_default: Mapping[str, str] = NOTHING,
        dynamic_broker: Mapping[str, str] = NOTHING,
    ) -> None:
        self.static = dict(static)
        self.dynamic_default = dict(dynamic_default)
        self.dynamic_broker = dict(dynamic_broker)
        self.profile_values = PROFILES.get(self.static.get("hightide.profile", "standard"), {})
        self.topic_values: dict[str, Value] = {}  # filled by topic_values when first needed
        self._values: dict[str, Value] = {}
        for name, setting in BROKER_SETTINGS.items():
            given = next(self.given(name), None)
            self._values[name] = None if given is None else setting.parse(given.text)
            setattr(self, attribute(name), self._values[name])
        self._resolve()

    def get(self, name: str) -> Value:
        """The value of one setting, typed; SettingError when it is none of ours."""
        if name not in self._values:
            raise SettingError(f"'{name}' is not a setting that hightide honours")
        return self._values[name]

    def given(self, *names: str) -> Iterator[Given]:
        """Everything that was said under these names, the strongest layer first."""
        for source, layer in self._layers():
            for name in names:
                text = layer.get(name)
                if text is not None and not (source is Source.STATIC_BROKER_CONFIG and name in CLUSTER_ONLY):
                    yield Given(name, text, source)
        for name in names:
            text = self.profile_values.get(name, BROKER_SETTINGS[name].default if name in BROKER_SETTINGS else None)
            if text is not None:
                yield Given(name, text, Source.DEFAULT_CONFIG)

    def with_dynamic(self, dynamic_default: Mapping[str, str], dynamic_broker: Mapping[str, str]) -> Self:
        """The same static settings under other dynamic ones."""
        return type(self)(self.static, dynamic_default=dynamic_default, dynamic_broker=dynamic_broker)

    def _layers(self) -> tuple[tuple[Source, Mapping[str, str]], ...]:
        return (
            (Source.DYNAMIC_BROKER_CONFIG, self.dynamic_broker),
            (Source.DYNAMIC_DEFAULT_BROKER_CONFIG, self.dynamic_default),
            (Source.STATIC_BROKER_CONFIG, self.static),
        )

    def _resolve(self) -> None:
        """Settings that stand in for each other."""
        if not self.log_dirs:
            self.log_dirs = list_of(self._values["log.dir"])
        self.controller_listener_names = [name.upper() for name in list_of(self._values["controller.listener.names"])]
        if self._values["hightide.lease.ms"] is None:
            self.lease_ms = self.longest_lease_ms
        self.log_retention_ms = max(-1, self._first("log.retention.ms", "log.retention.minutes", "log.retention.hours"))
        self.log_roll_ms = self._first("log.roll.ms", "log.roll.hours")
        self.log_roll_jitter_ms = self._first("log.roll.jitter.ms", "log.roll.jitter.hours")
        if self._values["log.flush.interval.ms"] is None:
            self.log_flush_interval_ms = INT64_MAX

    @property
    def longest_lease_ms(self) -> int:
        """R16: a lease ends before the session does, whatever the drift between two clocks that was stated."""
        return self.broker_session_timeout_ms * (100 - self.lease_drift_percent) // 100

    def _first(self, *names: str) -> int:
        given = next(iter(self.given(*names)))
        return milliseconds(given.name, int(given.text))


def attribute(name: str) -> str:
    """The attribute that carries a setting."""
    return name.removeprefix("hightide.").replace(".", "_")


def milliseconds(name: str, value: int) -> int:
    """A time in milliseconds, its unit being the last word of the setting's name; negative stays negative."""
    if name.endswith(".hours"):
        return value * 3_600_000
    return value * 60_000 if name.endswith(".minutes") else value


def list_of(value: Value) -> list[str]:
    """A LIST value, or nothing."""
    return value if isinstance(value, list) else []
