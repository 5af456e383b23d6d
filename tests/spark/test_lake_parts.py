"""Parts of the jobs that need no Spark: how work is divided, what files say of themselves, how directories recover."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hightide.spark.audit_plan import SPLIT_BYTES, Replica, Role, splits_of, tasks_of
from hightide.spark.lake import parse_trigger
from hightide.spark.lake_columns import PlaceColumns
from hightide.spark.lake_files import Target, bins_of, merge_files, write_files
from hightide.spark.tables import DataFile, Mark
from hightide.spark.tables_parquet import ParquetTable

SCHEMA = pa.schema(
    [("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))]
)
MARK = Mark(b"t" * 16, 0)


def rows(first: int, count: int, partition: int = 0) -> pa.RecordBatch:
    start = datetime(2026, 7, 28, tzinfo=UTC)
    return pa.RecordBatch.from_pylist(
        [
            {"topic": "orders", "partition": partition, "offset": offset, "at": start if offset % 2 else None}
            for offset in range(first, first + count)
        ],
        schema=SCHEMA,
    )


def write(directory: Path, batches: list[pa.RecordBatch], file_bytes: int = 1 << 20) -> list[dict[str, Any]]:
    target = Target(str(directory), "test", file_bytes, PlaceColumns())
    return [row for written in write_files(batches, target) for row in written.to_pylist()]


def test_a_file_tells_its_ranges_and_delta_s_statistics(tmp_path: Path) -> None:
    (file,) = write(tmp_path, [rows(10, 5), rows(0, 3, partition=1), rows(15, 2)])
    assert sorted((each["partition"], each["end"]) for each in file["ranges"]) == [(0, 17), (1, 3)]
    assert (file["rows"], file["size"]) == (10, (tmp_path / file["name"]).stat().st_size)
    stats = json.loads(file["stats"])
    assert stats["numRecords"] == 10
    assert (stats["minValues"]["offset"], stats["maxValues"]["offset"]) == (0, 16)
    assert stats["minValues"]["at"] == stats["maxValues"]["at"] == "2026-07-28T00:00:00Z"
    assert stats["nullCount"] == {"topic": 0, "partition": 0, "offset": 0, "at": 6}
    assert "topic" not in stats["minValues"]


def test_files_end_at_their_size_and_merge_again(tmp_path: Path) -> None:
    files = write(tmp_path, [rows(number * 100, 100) for number in range(4)], file_bytes=1)
    assert [file["rows"] for file in files] == [100] * 4
    names = [file["name"] for file in files]
    (merged,) = [
        row
        for written in merge_files(str(tmp_path), names, Target(str(tmp_path), "merged", 1 << 20, None))
        for row in written.to_pylist()
    ]
    assert pq.read_table(tmp_path / merged["name"])["offset"].to_pylist() == list(range(400))


def test_a_task_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def failing() -> Any:
        yield rows(0, 5)
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        list(write_files(failing(), Target(str(tmp_path), "test", 1 << 20, None)))
    assert list(tmp_path.iterdir()) == []


def test_small_files_go_together_and_lone_ones_stay() -> None:
    files = [DataFile(name, size, 0, "") for name, size in (("a", 40), ("b", 50), ("c", 70), ("d", 20), ("e", 95))]
    assert [[file.name for file in each] for each in bins_of(files, 100)] == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("text", "pause"), [("available-now", None), ("10s", "10 seconds"), ("500ms", "500 milliseconds")]
)
def test_triggers(text: str, pause: str | None) -> None:
    assert parse_trigger(text) == pause


def test_a_large_replica_is_split_and_small_ones_share_tasks() -> None:
    def replica(partition: int, size: int) -> Replica:
        return Replica("orders", partition, 1, Role.LEADER, 10, 1010, size, False)

    large = splits_of([replica(0, 4 * SPLIT_BYTES)])
    assert [(split.start, split.end, split.is_first) for split in large] == [
        (10, 260, True),
        (260, 510, False),
        (510, 760, False),
        (760, 1010, False),
    ]
    small = splits_of([replica(partition, 1000) for partition in range(100)])
    tasks = tasks_of([*large, *small], parallelism=2)
    assert len(tasks) == 5
    assert sorted(split for task in tasks for split in task) == sorted([*large, *small])
    assert max(len(task) for task in tasks) == 100, "the small ones keep out of the way of the large ones"


def staged(table: ParquetTable, first: int, count: int) -> DataFile:
    (file,) = write(Path(table.data_directory), [rows(first, count)])
    return DataFile(file["name"], file["size"], file["rows"], file["stats"])


def offsets(directory: Path) -> list[int]:
    return sorted(pq.read_table(directory)["offset"].to_pylist())


@pytest.mark.covers("S3")
def test_a_directory_finishes_the_commit_that_a_crash_interrupted(tmp_path: Path) -> None:
    """The commit is written, one of its two files is in place, and the process is gone."""
    table = ParquetTable(str(tmp_path))
    table.prepare(SCHEMA)
    files = [staged(table, 0, 5), staged(table, 5, 5)]
    lost = staged(table, 10, 5)  # of a batch that was never committed
    table.append(files, {MARK: 10}, "batch 0")
    (tmp_path / files[1].name).rename(Path(table.data_directory) / files[1].name)
    assert offsets(tmp_path) == list(range(5))

    again = ParquetTable(str(tmp_path))
    again.prepare(SCHEMA)
    assert offsets(tmp_path) == list(range(10))
    assert again.marks([MARK]) == {MARK: 10}
    assert not (Path(again.data_directory) / lost.name).exists()


@pytest.mark.covers("S3")
def test_a_directory_finishes_the_merge_that_a_crash_interrupted(tmp_path: Path) -> None:
    table = ParquetTable(str(tmp_path))
    table.prepare(SCHEMA)
    old = [staged(table, 0, 5), staged(table, 5, 5)]
    table.append(old, {MARK: 10}, "batch 0")
    kept = (tmp_path / old[0].name).read_bytes()
    table.replace(old, [staged(table, 0, 10)])
    (tmp_path / old[0].name).write_bytes(kept)  # not removed yet when the process died
    ParquetTable(str(tmp_path)).prepare(SCHEMA)
    assert offsets(tmp_path) == list(range(10))
