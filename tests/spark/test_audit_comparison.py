"""How replicas of compacted topics are compared: rows as executors make them, three replicas side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hightide.spark.audit_comparison import compare_records, expected, missing_newest
from hightide.spark.audit_plan import Replica, Role
from hightide.spark.audit_reading import RecordRow, record_row, to_arrow
from hightide.wire.batches import build_batch
from hightide.wire.records import Record, iterate_headers, iterate_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.covers("S4")
LEADER, IN_SYNC, LAGGING = 1, 2, 3
ROLES = {LEADER: Role.LEADER, IN_SYNC: Role.IN_SYNC, LAGGING: Role.LAGGING}
END = 6
WRITTEN = [  # offset, key, value
    (0, b"a", b"1"),
    (1, b"b", b"1"),
    (2, b"a", b"2"),
    (3, b"c", None),
    (4, b"b", b"2"),
    (5, b"d", b"1"),
]
Held = Sequence[tuple[int, bytes, bytes | None]]


def rows_of(broker: int, held: Held) -> list[RecordRow]:
    records = [Record(offset, 1_000, key, value) for offset, key, value in held]
    data = build_batch(records, base_offset=held[0][0])
    ((position, header),) = iterate_headers(data)
    return [record_row(("t", 0, broker), header, record) for record in iterate_records(data, position, header)]


def judge(spark: SparkSession, held: Mapping[int, Held]) -> list[tuple[int, str, int]]:
    """(broker, finding, first offset) of everything that is wrong."""
    rows = [row for broker, records in held.items() for row in rows_of(broker, records)]
    records = spark.createDataFrame(pa.Table.from_batches(to_arrow(rows, RecordRow)))
    replicas = [
        Replica("t", 0, broker, role, 0, END if role is not Role.LAGGING else 4, None, True)
        for broker, role in ROLES.items()
    ]
    measure = expected(spark, replicas)
    found = compare_records(records, measure).unionByName(missing_newest(records, measure))
    wrong = found.where("finding IS NOT NULL").select("broker", "finding", "first_offset").collect()
    return sorted((row.broker, row.finding, row.first_offset) for row in wrong)


def without(*offsets: int) -> Held:
    return [record for record in WRITTEN if record[0] not in offsets]


def test_what_compaction_removes_is_not_missed(spark: SparkSession) -> None:
    """Older records of a key, and tombstones, may be gone from one replica and there at the other."""
    assert judge(spark, {LEADER: without(0, 1), IN_SYNC: without(0, 3), LAGGING: WRITTEN[:4]}) == []


def test_the_newest_record_of_a_key_is_owed_by_all_in_sync(spark: SparkSession) -> None:
    """A replica that lags owes nothing that it has not heard of."""
    held = {LEADER: WRITTEN, IN_SYNC: without(1, 4), LAGGING: WRITTEN[:1]}
    assert judge(spark, held) == [(IN_SYNC, "missing", 4)]


def test_the_leader_owes_it_too(spark: SparkSession) -> None:
    assert judge(spark, {LEADER: without(5), IN_SYNC: WRITTEN, LAGGING: WRITTEN[:4]}) == [(LEADER, "missing", 5)]


def test_a_record_that_both_have_must_be_the_same(spark: SparkSession) -> None:
    changed = [(offset, key, b"x" if offset == 2 else value) for offset, key, value in WRITTEN]
    assert judge(spark, {LEADER: WRITTEN, IN_SYNC: changed, LAGGING: changed[:4]}) == [
        (IN_SYNC, "different", 2),
        (LAGGING, "different", 2),
    ]
