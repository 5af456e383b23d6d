"""The settings of topics: all of Kafka's 33 names, and ours.

A setting that hightide does not honour keeps its name and default, and refuses everything else, so that a topic never
promises what nobody does.
"""

from collections.abc import Iterable
from typing import Final

from hightide.metadata.settings.cluster import check_placement
from hightide.metadata.settings.definition import (
    INT64_MAX,
    Setting,
    SettingType,
    Value,
    at_least,
    between,
    between_or,
    cleanup_policy,
    one_of,
    only,
    throttled_replicas,
)

BOOLEAN, STRING, INT, LONG, DOUBLE, LIST = (
    SettingType.BOOLEAN,
    SettingType.STRING,
    SettingType.INT,
    SettingType.LONG,
    SettingType.DOUBLE,
    SettingType.LIST,
)
FOREVER: Final = str(INT64_MAX)
COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
DURABILITIES: Final = ("fsync", "replicated")


def _unavailable(name: str, kind: SettingType, default: str, why: str, *broker_names: str) -> Setting:
    def check(_name: str, value: Value) -> str | None:
        given = value if not isinstance(value, bool) else str(value).lower()
        return None if str(given) == default else f"hightide accepts only Kafka's default {default}: {why}"

    return Setting(name, kind, default, f"Not available in hightide: {why}.", check, broker_names=broker_names)


_NO_TIERS = "there is no tiered storage"


def _declared() -> Iterable[Setting]:
    yield Setting(
        "cleanup.policy",
        LIST,
        "delete",
        "What happens to old records: delete segments when retention says so, compact them to the last record of "
        "each key, or both; empty keeps everything for ever.",
        cleanup_policy,
        broker_names=("log.cleanup.policy",),
    )
    yield Setting(
        "compression.gzip.level",
        INT,
        "-1",
        "The level when compression.type is gzip.",
        between_or(1, 9, -1),
        broker_names=("compression.gzip.level",),
    )
    yield Setting(
        "compression.lz4.level",
        INT,
        "9",
        "The level when compression.type is lz4.",
        between(1, 17),
        broker_names=("compression.lz4.level",),
    )
    yield Setting(
        "compression.type",
        STRING,
        "producer",
        "The codec that batches are stored with; producer keeps the one they came with.",
        one_of(*COMPRESSION_TYPES),
        broker_names=("compression.type",),
    )
    yield Setting(
        "compression.zstd.level",
        INT,
        "3",
        "The level when compression.type is zstd.",
        between(-131072, 22),
        broker_names=("compression.zstd.level",),
    )
    yield Setting(
        "delete.retention.ms",
        LONG,
        "86400000",
        "How long compaction keeps a tombstone after it removed what that deletes.",
        at_least(0),
        broker_names=("log.cleaner.delete.retention.ms",),
    )
    yield Setting(
        "file.delete.delay.ms",
        LONG,
        "60000",
        "How long a deleted segment's file stays on disk.",
        at_least(0),
        broker_names=("log.segment.delete.delay.ms",),
    )
    yield Setting(
        "flush.messages",
        LONG,
        FOREVER,
        "Sync after this many records, also where no acknowledgement asks for it.",
        at_least(1),
        broker_names=("log.flush.interval.messages",),
    )
    yield Setting(
        "flush.ms",
        LONG,
        FOREVER,
        "Sync after this many milliseconds, also where no acknowledgement asks for it.",
        at_least(0),
        broker_names=("log.flush.interval.ms",),
    )
    yield Setting(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        "The replicas that fetch at most follower.replication.throttled.rate: partition:broker pairs, or * for all.",
        throttled_replicas,
    )
    yield Setting(
        "index.interval.bytes",
        INT,
        "4096",
        "An index entry is written after this many bytes.",
        at_least(0),
        broker_names=("log.index.interval.bytes",),
    )
    yield Setting(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        "The replicas that get at most leader.replication.throttled.rate: partition:broker pairs, or * for all.",
        throttled_replicas,
    )
    yield _unavailable("local.retention.bytes", LONG, "-2", _NO_TIERS, "log.local.retention.bytes")
    yield _unavailable("local.retention.ms", LONG, "-2", _NO_TIERS, "log.local.retention.ms")
    yield Setting(
        "max.compaction.lag.ms",
        LONG,
        FOREVER,
        "Records that wait for compaction longer are compacted however few they are; a segment rolls after this time.",
        at_least(1),
        broker_names=("log.cleaner.max.compaction.lag.ms",),
    )
    yield Setting(
        "max.message.bytes",
        INT,
        "1048588",
        "The largest record batch that is accepted, after compression.",
        at_least(0),
        broker_names=("message.max.bytes",),
    )
    yield Setting(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        "How far a record's timestamp may lie in the broker's future.",
        at_least(0),
        broker_names=("log.message.timestamp.after.max.ms",),
    )
    yield Setting(
        "message.timestamp.before.max.ms",
        LONG,
        FOREVER,
        "How far a record's timestamp may lie in the broker's past.",
        at_least(0),
        broker_names=("log.message.timestamp.before.max.ms",),
    )
    yield Setting(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "Whether records keep their producer's timestamp or get the time of the append.",
        one_of("CreateTime", "LogAppendTime"),
        broker_names=("log.message.timestamp.type",),
    )
    yield Setting(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        "A log is compacted when more than this share of it never was.",
        between(0, 1),
        broker_names=("log.cleaner.min.cleanable.ratio",),
    )
    yield Setting(
        "min.compaction.lag.ms",
        LONG,
        "0",
        "Younger records are not compacted.",
        at_least(0),
        broker_names=("log.cleaner.min.compaction.lag.ms",),
    )
    yield Setting(
        "min.insync.replicas",
        INT,
        "1",
        "Writes with acks=all are refused when fewer replicas are in sync.",
        at_least(1),
        broker_names=("min.insync.replicas",),
    )
    yield _unavailable("preallocate", BOOLEAN, "false", "segments grow as they are written", "log.preallocate")
    yield _unavailable("remote.log.copy.disable", BOOLEAN, "false", _NO_TIERS)
    yield _unavailable("remote.log.delete.on.disable", BOOLEAN, "false", _NO_TIERS)
    yield _unavailable("remote.storage.enable", BOOLEAN, "false", _NO_TIERS)
    yield Setting(
        "retention.bytes",
        LONG,
        "-1",
        "Old segments of a partition are deleted above this size; -1 is no limit.",
        broker_names=("log.retention.bytes",),
    )
    yield Setting(
        "retention.ms",
        LONG,
        "604800000",
        "Segments whose newest record is older than this are deleted; -1 is no limit.",
        at_least(-1),
        broker_names=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    yield Setting(
        "segment.bytes",
        INT,
        "1073741824",
        "A new segment begins at this size.",
        at_least(1024 * 1024),
        broker_names=("log.segment.bytes",),
    )
    yield Setting(
        "segment.index.bytes",
        INT,
        "10485760",
        "A new segment begins when an index reaches this size.",
        at_least(4),
        broker_names=("log.index.size.max.bytes",),
    )
    yield Setting(
        "segment.jitter.ms",
        LONG,
        "0",
        "Segments roll up to this much earlier, so that many do not roll at once.",
        at_least(0),
        broker_names=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    yield Setting(
        "segment.ms",
        LONG,
        "604800000",
        "A new segment begins after this time, full or not.",
        at_least(1),
        broker_names=("log.roll.ms", "log.roll.hours"),
    )
    yield Setting(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "Whether a replica that may miss acknowledged records can lead when no other is left: availability over data.",
        broker_names=("unclean.leader.election.enable",),
    )
    yield Setting(
        "hightide.commit.rule",
        STRING,
        "insync",
        "How records are committed: insync by the in-sync set. Chosen when the topic is created.",
        only("insync", "majority topics need a cluster that elects, which this version does not have"),
        broker_names=("hightide.commit.rule",),
    )
    yield Setting(
        "hightide.durability",
        STRING,
        "fsync",
        "fsync: acknowledged with acks=all means on stable storage; replicated: in the memory of the in-sync brokers.",
        one_of(*DURABILITIES),
        broker_names=("hightide.durability",),
    )
    yield Setting(
        "hightide.placement",
        STRING,
        "rack-aware",
        "Where replicas go when the topic is created and when it grows; see the broker setting.",
        check_placement,
        broker_names=("hightide.placement",),
    )


TOPIC_SETTINGS: Final[dict[str, Setting]] = {setting.name: setting for setting in _declared()}
