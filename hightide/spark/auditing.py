"""The replica audit: every replica of every partition, compared batch by batch (S4).

The driver asks the cluster what there is to compare, executors read it through each replica's own broker and compare,
and only counts and findings come back. A finding counts when it is still there at a second look, taken with fresh
questions: retention, elections and replicas that fall behind while an audit runs raise no alarm. What was there at the
first look only is told beside: a broker mends a bad replica when it is asked for it.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hightide.spark.audit_comparison import Kind, compare_batches, compare_records, expected, missing_newest
from hightide.spark.audit_plan import Key, Plan, Replica, Role, Split, make_plan, splits_of, tasks_of
from hightide.spark.audit_reading import BATCH_COLUMNS, RECORD_COLUMNS, read_splits
from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

GIVE_UP_SECONDS = 15.0  # on one broker: what it does not give by then is unreadable
_REPORT_COLUMNS = (
    "topic string, partition int, broker int, role string, start bigint, bound bigint, batches bigint, bytes bigint, "
    "finding string, units bigint, first_offset bigint, end_offset bigint, detail string"
)


class Finding(NamedTuple):
    """What is wrong with a replica: how many batches (records of a compacted topic), in [first_offset, end_offset)."""

    kind: Kind
    units: int
    first_offset: int
    end_offset: int
    detail: str = ""


class ReplicaReport(NamedTuple):
    """One replica: the range in which it was compared, what was read of it, and what was found."""

    topic: str
    partition: int
    broker: int
    role: Role
    start: int
    bound: int
    batches: int
    bytes: int
    findings: Sequence[Finding]
    unreachable: str = ""
    passed: Sequence[Finding] = ()
    """What the first look found and the second did not."""


class AuditReport(NamedTuple):
    """All replicas. Partitions without a leader can't be compared with anything, which is a finding too."""

    replicas: Sequence[ReplicaReport]
    leaderless: Sequence[TopicPartition]

    @property
    def is_clean(self) -> bool:
        """Whether everybody in sync was read, and holds what it should."""
        return not self.leaderless and not any(replica.findings for replica in self.replicas)


def audit(
    spark: "SparkSession", bootstrap: str, topics: Collection[str] | None = None, *, full_hash: bool = False
) -> "DataFrame":
    """Compare all replicas of these topics (of all without names); one row per replica and finding.

    The job runs before this returns. `finding` is null for a replica on which nothing is wrong; role `lagging` marks
    those not in sync, compared up to their own high watermark. With `full_hash`, a digest of all bytes is compared
    beside length, epoch and CRC.
    """
    report = run_audit(spark, bootstrap, topics, full_hash=full_hash)
    rows: list[tuple[Any, ...]] = []
    for replica in report.replicas:
        place = (*replica[:3], str(replica.role), *replica[4:8])
        rows += [(*place, str(each.kind), *each[1:]) for each in replica.findings] or [(*place, *[None] * 5)]
    rows += [(*where, None, None, None, None, 0, 0, "leaderless", *[None] * 4) for where in report.leaderless]
    return spark.createDataFrame(rows, _REPORT_COLUMNS)


def run_audit(
    spark: "SparkSession", bootstrap: str, topics: Collection[str] | None = None, *, full_hash: bool = False
) -> AuditReport:
    """The same as values."""
    client = ClientSettings(bootstrap, client_id="hightide-audit", give_up_after=GIVE_UP_SECONDS)
    with BlockingCluster(client) as cluster:
        plan = cluster.run(lambda connected: make_plan(connected, topics))
        report = _look(spark, client, plan, full_hash=full_hash)
        doubtful = {TopicPartition(each.topic, each.partition) for each in report.replicas if each.findings}
        doubtful |= set(report.leaderless)
        if doubtful:
            names = sorted({where.topic for where in doubtful})
            again = cluster.run(lambda connected: make_plan(connected, names, doubtful))
            second = _look(spark, client, again, full_hash=full_hash)
            report = _replaced(report, doubtful, second)
    return report


def _replaced(first: AuditReport, doubtful: set[TopicPartition], second: AuditReport) -> AuditReport:
    """The second look counts, and remembers the first."""
    before = {each[:3]: each.findings for each in first.replicas}
    settled = [each for each in first.replicas if TopicPartition(each.topic, each.partition) not in doubtful]
    again = [
        each if each.findings else each._replace(passed=tuple(before.get(each[:3], ()))) for each in second.replicas
    ]
    return AuditReport(sorted([*settled, *again], key=lambda each: each[:3]), second.leaderless)


def _look(spark: "SparkSession", client: ClientSettings, plan: Plan, *, full_hash: bool) -> AuditReport:
    counted: defaultdict[Key, list[Any]] = defaultdict(list)
    for row in _compared(spark, client, plan.replicas, full_hash=full_hash):
        counted[row.broker, TopicPartition(row.topic, row.partition)].append(row)
    broken = {where for (_, where), rows in counted.items() for row in rows if row.finding == Kind.UNREADABLE}
    broken |= {each.key[1] for each in plan.replicas if each.unreachable and each.role is Role.LEADER}
    reports = [_report(replica, counted[replica.key], replica.key[1] in broken) for replica in plan.replicas]
    return AuditReport(sorted(reports, key=lambda each: each[:3]), plan.leaderless)


def _compared(
    spark: "SparkSession", client: ClientSettings, replicas: Sequence[Replica], *, full_hash: bool
) -> list[Any]:
    """The counts, of at most a few rows per replica: all that comes back to the driver."""
    splits = splits_of(replicas)
    whole = [split for split in splits if not split.compacted]
    cleaned = [split for split in splits if split.compacted]
    measure = expected(spark, replicas)
    rows = []
    if whole:
        rows += compare_batches(_read(spark, client, whole, BATCH_COLUMNS, full_hash=full_hash), measure).collect()
    if cleaned:
        records = _read(spark, client, cleaned, RECORD_COLUMNS, full_hash=full_hash).persist()
        try:
            rows += compare_records(records, measure).collect()
            rows += missing_newest(records, measure).collect()
        finally:
            records.unpersist()
    return rows


def _read(
    spark: "SparkSession", client: ClientSettings, splits: list[Split], columns: str, *, full_hash: bool
) -> "DataFrame":
    """The rows of all splits. The numbers of a range stand for the tasks, which travel with the function."""
    tasks = tasks_of(splits, spark.sparkContext.defaultParallelism)

    def read(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_splits(client, tasks[number], full_hash=full_hash)

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(read, columns)


def _report(replica: Replica, rows: Sequence[Any], partition_is_broken: bool) -> ReplicaReport:
    findings = [
        Finding(Kind(row.finding), row.units, row.first_offset, row.end_offset, row.detail or "")
        for row in rows
        if row.finding is not None
    ]
    read = [row for row in rows if row.finding != Kind.MISSING]  # what is missing was not
    batches, size = sum(row.units for row in read), sum(row.bytes for row in read)
    if replica.unreachable:
        findings = []
        if replica.role is not Role.LAGGING:
            findings = [Finding(Kind.UNREADABLE, 1, replica.start, replica.bound, replica.unreachable)]
    elif partition_is_broken:
        # What could not be read says why the rest is not there, or why the leader seems to lack it.
        findings = [each for each in findings if each.kind not in (Kind.MISSING, Kind.UNEXPECTED)]
    elif replica.role is Role.LEADER and not replica.compacted:
        findings += _lost_by_leader(replica, read)
    return ReplicaReport(
        replica.topic, replica.partition, replica.broker, replica.role, replica.start, replica.bound,
        batches, size, sorted(findings), replica.unreachable,
    )  # fmt: skip


def _lost_by_leader(replica: Replica, read: Sequence[Any]) -> list[Finding]:
    """There is no other measure for the leader than its own high watermark: all offsets below it must be covered."""
    lost = replica.bound - replica.start - sum(row.offsets for row in read)
    if lost <= 0:
        return []
    end = max((row.end_offset for row in read), default=replica.start)
    first = end if replica.bound - end == lost else replica.start  # a tail, or a hole somewhere
    return [Finding(Kind.MISSING, 1, first, replica.bound, f"{lost} offsets below its high watermark")]
