"""Topics to lakehouse tables, in one process: every format, every layout, repeated batches, lost checkpoints."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hightide.cli.application import main
from hightide.cli.failures import ExitCode
from hightide.errors import ApiError
from hightide.spark import read, to_lake
from hightide.spark.lake import Committed, compact
from hightide.spark.lake_columns import Layout, ValueFormat, lay_out
from hightide.spark.tables import DataFile, TableConflictError, TableError, TableFormat, open_table
from hightide.wire.records import Record
from tests.spark.lakes import Lake
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.covers("S3")
WAIT_SECONDS = 240
MERGED_BYTES = 1 << 20
OTHERS = (TableFormat.ICEBERG, TableFormat.PARQUET)


@pytest.fixture
def lake(tmp_path: Path) -> Callable[..., Lake]:
    return lambda form=TableFormat.DELTA: Lake(form, tmp_path / str(form))


def run(spark: SparkSession, topics: Topics, name: str, lake: Lake, **options: Any) -> list[Committed]:
    """Bring the table in step once."""
    batches: list[Committed] = []
    query = to_lake(spark, topics.bootstrap, name, lake.where, committed=batches.append, **lake.options | options)
    assert query.awaitTermination(WAIT_SECONDS)
    return batches


def all_places(*counts: int) -> list[tuple[int, int]]:
    return [(partition, offset) for partition, count in enumerate(counts) for offset in range(count)]


@pytest.mark.parametrize("form", list(TableFormat))
def test_a_table_keeps_in_step_through_merges_and_without_its_checkpoint(
    spark: SparkSession, topics: Topics, topic: Callable[..., str], lake: Callable[..., Lake], form: TableFormat
) -> None:
    name, table = topic(2), lake(form)
    topics.fill(name, 40, partition=0)
    topics.fill(name, 20, partition=1)
    batches = run(spark, topics, name, table, options={"maxOffsetsPerTrigger": "30"})
    assert [batch.rows for batch in batches] == [30, 30]
    assert table.places() == all_places(40, 20)
    row = next(row for row in table.rows() if (row["partition"], row["offset"]) == (1, 7))
    assert (row["key"], row["value"], row["topic"]) == (b"k7", b"v7", name)

    opened = open_table(form, table.where, catalog=table.catalog or None)
    opened.prepare(schema_of(table))
    before = opened.small_files(MERGED_BYTES)
    assert len(before) == sum(batch.files for batch in batches) >= 2
    assert compact(spark, opened, MERGED_BYTES) == len(before)
    (merged,) = opened.small_files(MERGED_BYTES)
    assert merged.size < sum(file.size for file in before)
    assert table.places() == all_places(40, 20)

    topics.fill(name, 5, partition=1)
    shutil.rmtree(Path(opened.state_directory.removeprefix("file://")) / "checkpoint")
    assert sum(batch.rows for batch in run(spark, topics, name, table)) == 5
    assert table.places() == all_places(40, 25)


def schema_of(lake: Lake) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    from hightide.spark.schema import COLUMNS, spark_schema

    return to_arrow_schema(spark_schema(COLUMNS), timezone="UTC")


@pytest.mark.parametrize("form", [TableFormat.DELTA, *(pytest.param(form, marks=pytest.mark.long) for form in OTHERS)])
def test_kill_minus_nine_between_the_tables_commit_and_sparks(
    spark: SparkSession, topics: Topics, topic: Callable[..., str], lake: Callable[..., Lake], form: TableFormat
) -> None:
    name, table = topic(2), lake(form)
    topics.fill(name, 250, partition=0)
    topics.fill(name, 50, partition=1)
    checkpoint = table.directory / "checkpoint"
    arguments = [topics.bootstrap, name, table.where, form, json.dumps(table.catalog), str(checkpoint), "1"]
    command = [sys.executable, "-m", "tests.spark.lake_that_dies", *arguments]
    job = subprocess.run(command, start_new_session=True, capture_output=True, text=True, timeout=WAIT_SECONDS)
    assert job.returncode == -signal.SIGKILL, job.stderr
    kept = len(table.places())
    assert 100 < kept < 300
    assert [(checkpoint / kind / "1").exists() for kind in ("offsets", "commits")] == [True, False]
    batches = run(spark, topics, name, table, checkpoint=str(checkpoint))
    assert [(batch.batch, batch.rows) for batch in batches] == [(1, 0), (2, 300 - kept)]
    assert table.places() == all_places(250, 50)


@pytest.mark.parametrize("form", list(TableFormat))
def test_a_writer_that_lost_touch_can_not_add_what_its_successor_added(
    topics: Topics, topic: Callable[..., str], lake: Callable[..., Lake], form: TableFormat
) -> None:
    from hightide.spark.blocking import ClientSettings
    from hightide.spark.lake import find_sources

    name, table = topic(1), lake(form)
    mark = next(iter(find_sources(ClientSettings(topics.bootstrap), [name]).values()))
    old, new = (open_table(form, table.where, catalog=table.catalog or None) for _ in range(2))
    old.prepare(schema_of(table))
    new.prepare(schema_of(table))
    assert old.marks([mark]) == new.marks([mark]) == {}
    files = [write_one(new, number) for number in range(2)]
    new.append([files[0]], {mark: 10}, "new")
    with pytest.raises(TableConflictError, match="somebody else"):
        old.append([files[1]], {mark: 10}, "old")
    assert old.marks([mark]) == {mark: 10}
    assert len(table.rows()) == 1


def write_one(table: Any, number: int) -> DataFile:
    import pyarrow as pa

    from hightide.spark.lake_files import Target, write_files
    from hightide.spark.schema import COLUMNS, arrow_schema

    row = {"topic": "t", "partition": 0, "offset": number, "timestampType": 0}
    batch = pa.RecordBatch.from_pylist([row], schema=arrow_schema(COLUMNS))
    (written,) = write_files([batch], Target(table.data_directory, "test", 1 << 20, None))
    (found,) = written.to_pylist()
    return DataFile(found["name"], found["size"], found["rows"], found["stats"])


def test_the_command_makes_columns_of_json_values(
    spark: SparkSession,
    topics: Topics,
    topic: Callable[..., str],
    lake: Callable[..., Lake],
    capsys: pytest.CaptureFixture[str],
) -> None:
    name, table = topic(1), lake()
    values = [
        json.dumps({"id": 1, "offset": "north", "lines": [{"sku": "a", "count": 2}]}).encode(),
        b'{"id": 2, "unknown": true}',
        b"no json",
        None,
    ]
    topics.send(name, [Record(key=b"k", value=value, timestamp=1_700_000_000_000) for value in values])
    schema = table.directory / "schema.ddl"
    schema.write_text("-- an order\nid bigint, offset string, lines array<struct<sku: string, count: int>>")
    command = ["pipeline", "lake", name, "-b", topics.bootstrap, "--to", table.where, "-o", "json"]
    code = main([*command, "--value-format", "json", "--schema", f"@{schema}", "--compact-to", "1MB"])
    shown = capsys.readouterr()
    assert code == ExitCode.DONE, shown.err
    facts = json.loads(shown.out)
    assert (facts["records"], facts["batches"], facts["files"]) == (4, 1, 1)
    assert "batch 0: 4 records in 1 files" in shown.err
    rows = sorted(table.rows(), key=lambda row: row["record_offset"])
    assert [(row["id"], row["offset"], row["lines"], row["record_malformed"]) for row in rows] == [
        (1, "north", [{"sku": "a", "count": 2}], None),
        (2, None, None, None),
        (None, None, None, "no json"),
        (None, None, None, None),
    ]
    assert [(row["record_key"], row["record_topic"], row["record_partition"]) for row in rows] == [("k", name, 0)] * 4
    assert {row["record_timestamp"].timestamp() for row in rows} == {1_700_000_000}
    assert main(command) == ExitCode.USAGE
    assert "has the columns" in capsys.readouterr().err


def test_text_values_stay_readable(spark: SparkSession, topics: Topics, topic: Callable[..., str]) -> None:
    name = topic(1)
    topics.fill(name, 1)
    (row,) = lay_out(read(spark, topics.bootstrap, name), Layout(ValueFormat.STRING)).collect()
    assert (row.key, row.value, row.offset) == ("k0", "v0", 0)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"value_format": "json"}, "need a schema"),
        ({"schema": "id bigint"}, "goes with JSON"),
        ({"value_format": "json", "schema": "id bigint, record_key string"}, "record_key"),
        ({"value_format": "json", "schema": "id big int int"}, "is no schema"),
        ({"trigger": "often"}, "is no trigger"),
        ({"format": "delta", "catalog": {"uri": "x"}}, "has no catalog"),
        ({"format": "iceberg"}, "namespace.table"),
        ({}, "nowhere"),
    ],
)
def test_mistakes_are_told_before_anything_is_made(
    spark: SparkSession, topics: Topics, tmp_path: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises((ValueError, TableError, ApiError), match=sentence):
        to_lake(spark, topics.bootstrap, "nowhere", str(tmp_path / "table"), **options)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(autouse=True)
def quiet(spark: SparkSession) -> Iterator[None]:
    yield
    for query in spark.streams.active:
        query.stop()
