"""What a log is told: the settings of its topic, and what its directory remembers when it is opened."""

from typing import NamedTuple

from hightide.limits import MIB
from hightide.wire.compression import Codec
from hightide.wire.validation import ProducePolicy

DAY_MS = 24 * 60 * 60 * 1000
INT64_MAX = 2**63 - 1
FOREVER = -1  # retention.ms and retention.bytes of -1
NEVER_COMPACTED = -1


class LogSettings(NamedTuple):
    """The settings of a topic that its logs keep, each under Kafka's name; replaced as a whole when one changes."""

    segment_bytes: int = 1024 * MIB
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * MIB
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = FOREVER
    max_message_bytes: int = MIB + 12
    log_append_time: bool = False  # message.timestamp.type
    message_timestamp_before_max_ms: int = INT64_MAX
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    flush_messages: int = INT64_MAX
    flush_ms: int = INT64_MAX
    file_delete_delay_ms: int = 60_000
    delete_policy: bool = True  # cleanup.policy contains delete
    compact_policy: bool = False  # cleanup.policy contains compact
    delete_retention_ms: int = DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    synced_before_acknowledged: bool = True  # hightide.durability=fsync

    @property
    def roll_ms(self) -> int:
        """After how long a segment ends: like in Kafka, what must be compacted in time may not stay active longer."""
        if self.compact_policy and self.max_compaction_lag_ms > 0:
            return min(self.segment_ms, self.max_compaction_lag_ms)
        return self.segment_ms


class OpenFacts(NamedTuple):
    """What the log directory knows about one log before it is opened.

    `synced_floor` is the law of R17: nothing below it may be cut, whatever the bytes look like. `tombstone_horizon`:
    tombstones below it may have been removed, and offsets may be missing; NEVER_COMPACTED says that none are (R21).
    """

    clean: bool = False  # the clean mark was there: everything is synced, nothing needs a scan
    recovery_point: int = 0
    recorded_synced_end: int = 0
    high_watermark: int = 0
    log_start: int = 0
    tombstone_horizon: int = NEVER_COMPACTED
    entered: bool = False  # the name of the log's directory is known to last

    @property
    def synced_floor(self) -> int:
        """Every offset below was once reported to be on stable storage."""
        return max(self.recovery_point, self.recorded_synced_end, self.high_watermark)


def produce_policy(settings: LogSettings) -> ProducePolicy:
    """What these settings ask of a client's batch."""
    codec, level = _codec_of(settings)
    return ProducePolicy(
        max_message_bytes=settings.max_message_bytes,
        compacted=settings.compact_policy,
        codec=codec,
        level=level,
        append_time=settings.log_append_time,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
    )


def _codec_of(settings: LogSettings) -> tuple[Codec | None, int | None]:
    """The codec that compression.type asks for and its level; None when the producer chooses."""
    match settings.compression_type:
        case "producer":
            return None, None
        case "uncompressed":
            return Codec.NONE, None
        case "gzip":
            return Codec.GZIP, settings.compression_gzip_level
        case "lz4":
            return Codec.LZ4, settings.compression_lz4_level
        case "zstd":
            return Codec.ZSTD, settings.compression_zstd_level
        case "snappy":
            return Codec.SNAPPY, None
        case other:
            raise ValueError(f"compression.type {other}")
