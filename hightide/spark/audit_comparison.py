"""Comparing what replicas hold, on the executors: one row of counts for each replica and each kind of finding (S4).

Batches are grouped by where they begin and compared with the leader's; records of compacted topics by their offset, and
the newest of every key must be with everybody in sync. The leader is the measure, unless its own batch is damaged: then
it alone is to blame.
"""

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from hightide.spark.audit_plan import Replica, Role

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hightide.types import TopicPartition


class Kind(StrEnum):
    """What can be wrong with a replica."""

    CORRUPT = "corrupt"
    """Its CRC does not fit the batch."""
    DIFFERENT = "different"
    """Whole, and not what the leader has there."""
    MISSING = "missing"
    """The leader has it, or the high watermark says that it was there; this one should have it and does not."""
    UNEXPECTED = "unexpected"
    """The leader has nothing that begins there, and should."""
    UNREADABLE = "unreadable"
    """The broker does not give it, or what it gives is no batch."""


_REPLICAS = "array<struct<broker: int, start: bigint, bound: bigint, in_sync: boolean>>"
_EXPECTED = f"topic string, partition int, leader int, leader_start bigint, leader_bound bigint, replicas {_REPLICAS}"
_BATCH_FINDING = f"""
    CASE
        WHEN here.problem IS NOT NULL THEN '{Kind.UNREADABLE}'
        WHEN NOT here.ok THEN '{Kind.CORRUPT}'
        WHEN here IS NULL THEN '{Kind.MISSING}'
        WHEN reference IS NULL AND at >= leader_start AND here.next_offset <= leader_bound THEN '{Kind.UNEXPECTED}'
        WHEN reference IS NULL OR reference.problem IS NOT NULL OR NOT reference.ok THEN NULL
        WHEN here.next_offset <> reference.next_offset OR here.size <> reference.size OR here.crc <> reference.crc
            OR here.epoch <> reference.epoch OR NOT here.digest <=> reference.digest THEN '{Kind.DIFFERENT}'
    END
"""
_BATCH_CONCERNS = "here IS NOT NULL OR (at >= replica.start AND reference.next_offset <= replica.bound)"

_RECORD_FINDING = f"""
    CASE
        WHEN here.problem = '{Kind.CORRUPT}' THEN '{Kind.CORRUPT}'
        WHEN here.problem IS NOT NULL THEN '{Kind.UNREADABLE}'
        WHEN here.digest <> reference.digest THEN '{Kind.DIFFERENT}'
    END
"""


def expected(spark: "SparkSession", replicas: Sequence[Replica]) -> "DataFrame":
    """One row per partition: its leader and what each replica must hold. Small enough to be with every task."""
    by_partition: defaultdict[TopicPartition, list[Replica]] = defaultdict(list)
    for replica in replicas:
        by_partition[replica.key[1]].append(replica)
    rows = []
    for where, members in by_partition.items():
        leader = next(replica for replica in members if replica.role is Role.LEADER)
        held = [
            (replica.broker, replica.start, replica.bound, replica.role is not Role.LAGGING)
            for replica in members
            if not replica.unreachable
        ]
        rows.append((*where, leader.broker, leader.start, leader.bound, held))
    return spark.createDataFrame(rows, _EXPECTED)


def compare_batches(batches: "DataFrame", replicas: "DataFrame") -> "DataFrame":
    """Counts of batches per replica and finding; no finding is what matched."""
    from pyspark.sql import functions as f

    held = f.struct("broker", "next_offset", "size", "epoch", "crc", "ok", "digest", "problem")
    grouped = batches.groupBy("topic", "partition", f.col("base_offset").alias("at")).agg(
        f.collect_list(held).alias("held")
    )
    sided = _beside_the_leader(grouped, replicas).where(_BATCH_CONCERNS)
    judged = sided.withColumn("finding", f.expr(_BATCH_FINDING)).withColumn(
        "following", f.expr("coalesce(here.next_offset, reference.next_offset)")
    )
    return _counted(judged, "here.next_offset - greatest(at, replica.start)")


def compare_records(records: "DataFrame", replicas: "DataFrame") -> "DataFrame":
    """Counts of records per replica and finding, where compaction may have removed older records of a key."""
    from pyspark.sql import functions as f

    held = f.struct("broker", "size", "digest", "problem")
    grouped = records.groupBy("topic", "partition", f.col("offset").alias("at")).agg(f.collect_list(held).alias("held"))
    judged = (
        _beside_the_leader(grouped, replicas)
        .where("here IS NOT NULL")
        .withColumn("finding", f.expr(_RECORD_FINDING))
        .withColumn("following", f.expr("at + 1"))
    )
    return _counted(judged, "1")


def missing_newest(records: "DataFrame", replicas: "DataFrame") -> "DataFrame":
    """Counts of keys whose newest record one in-sync replica has and another has not, though compaction keeps it.

    Each key comes down to its newest record at each replica before anything is brought together.
    """
    from pyspark.sql import functions as f

    newest_at = (
        records.where("key IS NOT NULL")
        .groupBy("topic", "partition", "key", "broker")
        .agg(f.expr("max_by(struct(offset, owed), offset)").alias("newest"))
    )
    grouped = newest_at.groupBy("topic", "partition", "key").agg(
        f.collect_list(f.struct("broker", "newest")).alias("held")
    )
    owing = (
        grouped.join(f.broadcast(replicas), ["topic", "partition"])
        .withColumn("held", f.expr("filter(held, h -> exists(replicas, r -> r.broker = h.broker AND r.in_sync))"))
        .withColumn("newest", f.expr("array_max(transform(held, h -> h.newest))"))
        .where("newest.owed")
        .selectExpr("topic", "partition", "newest.offset AS at", "held", "explode(replicas) AS replica")
        .where("replica.in_sync AND at >= replica.start AND at < replica.bound")
        .where("NOT exists(held, h -> h.broker = replica.broker AND h.newest.offset = at)")
    )
    return owing.groupBy("topic", "partition", f.col("replica.broker").alias("broker")).agg(
        f.lit(str(Kind.MISSING)).alias("finding"),
        f.count("*").alias("units"),
        f.lit(0).cast("bigint").alias("bytes"),
        f.lit(0).cast("bigint").alias("offsets"),
        f.min("at").alias("first_offset"),
        f.expr("max(at) + 1").alias("end_offset"),
        f.lit(None).cast("string").alias("detail"),
    )


def _beside_the_leader(grouped: "DataFrame", replicas: "DataFrame") -> "DataFrame":
    """What each replica holds at a place (`here`) and what the leader holds there (`reference`)."""
    from pyspark.sql import functions as f

    return (
        grouped.join(f.broadcast(replicas), ["topic", "partition"])
        .withColumn("reference", f.expr("get(filter(held, h -> h.broker = leader), 0)"))
        .withColumn("replica", f.explode("replicas"))
        .withColumn("here", f.expr("get(filter(held, h -> h.broker = replica.broker), 0)"))
    )


def _counted(judged: "DataFrame", covered: str) -> "DataFrame":
    from pyspark.sql import functions as f

    return judged.groupBy("topic", "partition", f.col("replica.broker").alias("broker"), "finding").agg(
        f.expr("count(*)").alias("units"),
        f.expr("coalesce(sum(here.size), 0)").alias("bytes"),
        f.expr(f"coalesce(sum({covered}), 0)").alias("offsets"),
        f.min("at").alias("first_offset"),
        f.max("following").alias("end_offset"),
        f.expr("first(here.problem, true)").alias("detail"),
    )
