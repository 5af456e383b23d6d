"""The settings of brokers that hightide honours: Kafka's names, and ours under `hightide.`.

Nothing is declared here that does nothing. Defaults are Kafka's unless MISSION, DESIGN or limits.py say otherwise:
then the difference is in `OWN_DEFAULTS`, with its reason.
"""

from collections.abc import Iterable
from typing import Final

from hightide.limits import CONNECTIONS_MAX, FETCH_BYTES_MAX, FETCH_SESSIONS_MAX, FRAME_BYTES_MAX
from hightide.metadata.settings.cluster import (
    CLUSTER_DEV_PROFILE,
    CLUSTER_OWN_DEFAULTS,
    check_roles,
    controller_settings,
    metadata_log_settings,
    quorum_settings,
    replication_settings,
    session_settings,
)
from hightide.metadata.settings.definition import (
    INT32_MAX,
    INT64_MAX,
    Check,
    Setting,
    SettingType,
    Value,
    at_least,
    between,
    between_or,
    cleanup_policy,
    one_of,
    only,
)
from hightide.metadata.settings.groups import GROUPS_DEV_PROFILE, group_settings
from hightide.metadata.settings.listeners import (
    check_advertised,
    check_brokers,
    check_listeners,
    check_protocol_map,
)
from hightide.metadata.settings.topic import COMPRESSION_TYPES, DURABILITIES

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
)

OWN_DEFAULTS: Final = {
    "node.id": "ids count from 1",
    "process.roles": "one process plays both roles unless told otherwise",
    "listeners": "bound to loopback unless told otherwise",
    "log.dir": "data does not belong under /tmp",
    "max.connections": "everything has a limit",
    **CLUSTER_OWN_DEFAULTS,
}
PROFILES: Final[dict[str, dict[str, str]]] = {
    "standard": {},
    "dev": {"log.segment.delete.delay.ms": "1000", **CLUSTER_DEV_PROFILE, **GROUPS_DEV_PROFILE},
}


def _fixed(name: str, kind: SettingType, default: str | None, what: str, check: Check | None = None) -> Setting:
    return Setting(name, kind, default, what, check)


def _dynamic(name: str, kind: SettingType, default: str | None, what: str, check: Check | None = None) -> Setting:
    return Setting(name, kind, default, what, check, dynamic=True)


def _one_directory(_name: str, value: Value) -> str | None:
    if isinstance(value, list) and len(value) == 1:
        return None
    return "exactly one log directory is supported"


def _not_zero(_name: str, value: Value) -> str | None:
    return "must be unlimited (-1) or, equal or greater than 1" if value == 0 else None


def _identity() -> Iterable[Setting]:
    yield _fixed("node.id", INT, "1", "The id of this broker, unique in its cluster.", at_least(0))
    yield _fixed("process.roles", LIST, "broker,controller", "The roles that this process plays.", check_roles)
    yield _fixed("broker.rack", STRING, None, "Where this broker stands; replicas spread over racks.")
    yield _fixed("log.dirs", LIST, None, "The directory of all data; when it is not set, log.dir is.", _one_directory)
    yield _fixed("log.dir", LIST, "hightide-data", "The directory of all data.", _one_directory)
    yield _fixed(
        "hightide.brokers",
        LIST,
        "",
        "A static list id@host:port,... of the brokers; a broker that is not in its own list does not start.",
        check_brokers,
    )
    yield _fixed(
        "hightide.profile", STRING, "standard", "dev shortens timers and time-outs for development.", one_of(*PROFILES)
    )


def _network() -> Iterable[Setting]:
    yield _fixed(
        "listeners",
        LIST,
        "PLAINTEXT://127.0.0.1:9092",
        "Where the broker listens: NAME://host:port,...; an empty host is loopback, port 0 picks a free one.",
        check_listeners,
    )
    yield _fixed(
        "advertised.listeners",
        LIST,
        None,
        "The addresses that clients are told, where they differ from listeners.",
        check_advertised,
    )
    yield _fixed(
        "listener.security.protocol.map",
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener; PLAINTEXT is the one available.",
        check_protocol_map,
    )
    yield _fixed(
        "hightide.source.host",
        STRING,
        None,
        "The address that connections to other nodes come from; when it is not set, the system chooses.",
    )
    yield _dynamic("max.connections", INT, str(CONNECTIONS_MAX), "How many connections are accepted.", at_least(0))
    yield _dynamic(
        "max.connections.per.ip", INT, str(INT32_MAX), "How many connections one address may have.", at_least(0)
    )
    yield _fixed("connections.max.idle.ms", LONG, "600000", "Connections that are idle for longer are closed.")
    yield _fixed(
        "socket.request.max.bytes", INT, str(FRAME_BYTES_MAX), "The largest request that is read.", at_least(1)
    )
    yield _fixed(
        "fetch.max.bytes", INT, str(FETCH_BYTES_MAX), "The most that one fetch response carries.", at_least(1024)
    )
    yield _fixed(
        "max.incremental.fetch.session.cache.slots",
        INT,
        str(FETCH_SESSIONS_MAX),
        "How many fetch sessions are kept.",
        at_least(0),
    )


def _topics() -> Iterable[Setting]:
    yield _fixed("num.partitions", INT, "1", "The partitions of a topic whose creator does not say.", at_least(1))
    yield _fixed(
        "default.replication.factor", INT, "1", "The replicas of a topic whose creator does not say.", at_least(1)
    )
    yield _fixed("auto.create.topics.enable", BOOLEAN, "true", "Whether asking for a missing topic may create it.")
    yield _fixed("delete.topic.enable", BOOLEAN, "true", "Whether topics can be deleted.")
    yield _dynamic(
        "min.insync.replicas",
        INT,
        "1",
        "Writes with acks=all are refused when fewer replicas are in sync. In a file it counts at a cluster's first "
        "start; afterwards it is cluster metadata.",
        at_least(1),
    )
    yield _dynamic(
        "unclean.leader.election.enable", BOOLEAN, "false", "Whether a replica that may miss records can lead."
    )
    yield _dynamic("message.max.bytes", INT, "1048588", "The largest record batch that is accepted.", at_least(0))
    yield _dynamic(
        "compression.type", STRING, "producer", "The codec that batches are stored with.", one_of(*COMPRESSION_TYPES)
    )
    yield _dynamic("compression.gzip.level", INT, "-1", "The level of gzip.", between_or(1, 9, -1))
    yield _dynamic("compression.lz4.level", INT, "9", "The level of lz4.", between(1, 17))
    yield _dynamic("compression.zstd.level", INT, "3", "The level of zstd.", between(-131072, 22))
    yield _dynamic(
        "producer.id.expiration.ms", INT, "86400000", "Idle producers are forgotten after this time.", at_least(1)
    )
    yield _dynamic(
        "hightide.durability", STRING, "fsync", "What an acknowledgement promises, see the topic setting.",
        one_of(*DURABILITIES),
    )  # fmt: skip
    yield _fixed(
        "hightide.commit.rule", STRING, "insync", "How records are committed, see the topic setting.",
        only("insync", "majority topics need a cluster that elects, which this version does not have"),
    )  # fmt: skip


def _logs() -> Iterable[Setting]:
    yield _dynamic("log.cleanup.policy", LIST, "delete", "What happens to old segments.", cleanup_policy)
    yield _fixed("log.cleaner.enable", BOOLEAN, "true", "Whether topics that ask for it are compacted.")
    yield _dynamic(
        "log.cleaner.backoff.ms", LONG, "15000", "How long compaction waits when nothing is due.", at_least(0)
    )
    yield _dynamic(
        "log.cleaner.dedupe.buffer.size", LONG, "134217728",
        "Memory for the keys of one compaction, in its own process; more keys take more rounds.", at_least(1048576),
    )  # fmt: skip
    yield _dynamic(
        "log.cleaner.io.max.bytes.per.second", DOUBLE, "1.7976931348623157E308",
        "What compaction may read and write in a second.", at_least(1),
    )  # fmt: skip
    yield _dynamic("log.cleaner.delete.retention.ms", LONG, "86400000", "How long tombstones stay.", at_least(0))
    yield _dynamic("log.cleaner.min.compaction.lag.ms", LONG, "0", "Younger records are not compacted.", at_least(0))
    yield _dynamic(
        "log.cleaner.max.compaction.lag.ms", LONG, str(INT64_MAX), "After this time records are compacted.", at_least(1)
    )
    yield _dynamic(
        "log.cleaner.min.cleanable.ratio", DOUBLE, "0.5", "The share that compaction waits for.", between(0, 1)
    )
    yield _dynamic("log.segment.bytes", INT, "1073741824", "A new segment begins at this size.", at_least(1048576))
    yield _dynamic("log.segment.delete.delay.ms", LONG, "60000", "How long deleted files stay on disk.", at_least(0))
    yield _dynamic("log.roll.ms", LONG, None, "A new segment begins after this time.", at_least(1))
    yield _fixed("log.roll.hours", INT, "168", "The same in hours, when log.roll.ms is not set.", at_least(1))
    yield _dynamic("log.roll.jitter.ms", LONG, None, "Segments roll up to this much earlier.", at_least(0))
    yield _fixed(
        "log.roll.jitter.hours", INT, "0", "The same in hours, when log.roll.jitter.ms is not set.", at_least(0)
    )
    yield _dynamic("log.retention.ms", LONG, None, "Older segments are deleted; -1 is no limit.", _not_zero)
    yield _fixed(
        "log.retention.minutes", INT, None, "The same in minutes, when log.retention.ms is not set.", _not_zero
    )
    yield _fixed("log.retention.hours", INT, "168", "The same in hours, when neither of them is set.", _not_zero)
    yield _dynamic("log.retention.bytes", LONG, "-1", "Old segments of a partition above this size are deleted.")
    yield _fixed("log.retention.check.interval.ms", LONG, "300000", "How often retention is looked at.", at_least(1))
    yield _dynamic("log.index.interval.bytes", INT, "4096", "An index entry after this many bytes.", at_least(0))
    yield _dynamic("log.index.size.max.bytes", INT, "10485760", "The largest index of a segment.", at_least(4))
    yield _dynamic("log.flush.interval.messages", LONG, str(INT64_MAX), "Sync after this many records.", at_least(1))
    yield _dynamic("log.flush.interval.ms", LONG, None, "Sync after this many milliseconds.", at_least(0))
    yield _dynamic(
        "log.message.timestamp.type", STRING, "CreateTime", "Whose clock stamps records.",
        one_of("CreateTime", "LogAppendTime"),
    )  # fmt: skip
    yield _dynamic(
        "log.message.timestamp.before.max.ms", LONG, str(INT64_MAX), "How old a record's timestamp may be.", at_least(0)
    )
    yield _dynamic(
        "log.message.timestamp.after.max.ms", LONG, "3600000", "How far ahead a record's timestamp may be.", at_least(0)
    )


BROKER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for group in (
        _identity,
        _network,
        quorum_settings,
        metadata_log_settings,
        session_settings,
        replication_settings,
        controller_settings,
        group_settings,
        _topics,
        _logs,
    )
    for setting in group()
}
