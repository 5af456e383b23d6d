"""Topics to a lakehouse table, exactly once through any crash (S3).

A streaming query cuts the topics into micro-batches. For each, executors write the rows to Parquet files and the driver
makes one atomic commit of the table: the files, and for every partition the next offset. A micro-batch that Spark
repeats after a crash, because its own note of it came too late, finds those marks and adds only what is not there yet.
Not even the checkpoint is needed for that: without it, reading begins where the table ends.
"""

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from hightide.client.cluster import Cluster
from hightide.client.metadata import Topic
from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.spark.frames import read_stream
from hightide.spark.lake_columns import Layout, PlaceColumns, ValueFormat, lay_out
from hightide.spark.lake_files import WRITTEN_COLUMNS, Target, bins_of, merge_files, write_files
from hightide.spark.tables import DataFile, Mark, Marks, Table, TableConflictError, TableError, TableFormat, open_table
from hightide.types import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

FILE_BYTES = 128 * 1024 * 1024
AVAILABLE_NOW = "available-now"
SMALL_FILES_MIN = 16  # fewer are not worth a commit of their own
FIRST_LOOK_SECONDS = 5.0  # for topics to be there when the job starts: later ones may wait for brokers to come back
NEWS_SECONDS, NEWS_PAUSE_SECONDS = 10.0, 0.2  # for brokers to hear of a new partition
EARLIEST = -2  # as in `startingOffsets`
_INTERVAL = re.compile(r"(\d+)\s*(ms|s|m|h)")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


class Committed(NamedTuple):
    """One micro-batch that is in the table now; a repeated one adds no rows and no files."""

    batch: int
    rows: int
    files: int
    bytes: int
    version: str
    merged_files: int
    seconds: float


def to_lake(
    spark: "SparkSession",
    bootstrap: str,
    topics: str | Sequence[str],
    table: str | Table,
    *,
    format: TableFormat | str = TableFormat.DELTA,  # noqa: A002 - as DataFrame.write has it
    catalog: Mapping[str, str] | None = None,
    value_format: ValueFormat | str = ValueFormat.BINARY,
    schema: str | None = None,
    trigger: str = AVAILABLE_NOW,
    checkpoint: str | None = None,
    compact_to: int | None = None,
    options: Mapping[str, str] | None = None,
    committed: Callable[[Committed], None] | None = None,
) -> "StreamingQuery":
    """Start to keep a table in step with topics: `available-now` ends when it is, `10s` looks again for ever.

    `table` is a path (Delta, Parquet) or `namespace.table` (Iceberg, with the properties of its `catalog`). JSON values
    become columns as `schema` says; other options of the source go in `options`. Every record is in the table exactly
    once, whatever is killed when. `compact_to` bytes is the size to which small files are merged now and then.
    """
    layout = Layout(ValueFormat(value_format), schema)
    layout.check()
    pause = parse_trigger(trigger)
    names = [topics] if isinstance(topics, str) else list(topics)
    opened = open_table(format, table, catalog=catalog) if isinstance(table, str) else table
    client = ClientSettings(bootstrap, client_id="hightide-lake")
    asked = {"isolation.level": "read_committed", **(options or {})}
    columns = _arrow_schema(lay_out(_nothing(spark, bootstrap, names, asked), layout))
    sources = find_sources(client._replace(give_up_after=FIRST_LOOK_SECONDS), names)
    opened.prepare(columns)
    starting = _starting_offsets(sources, opened)
    records = read_stream(spark, bootstrap, names, starting=starting, options=asked)
    writer = _BatchWriter(spark, client, names, opened, layout.place_columns, compact_to, committed)
    stream = (
        lay_out(records, layout)
        .writeStream.queryName(f"hightide lake {opened.name}")
        .option("checkpointLocation", checkpoint or f"{opened.state_directory}/checkpoint")
        .foreachBatch(writer.write)
    )
    return (stream.trigger(availableNow=True) if pause is None else stream.trigger(processingTime=pause)).start()


def parse_trigger(text: str) -> str | None:
    """The pause between two looks in Spark's words, None for just one; ValueError with a sentence for what is none."""
    if text == AVAILABLE_NOW:
        return None
    found = _INTERVAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no trigger: write {AVAILABLE_NOW}, or a pause as 500ms, 10s, 5m or 1h")
    return f"{found[1]} {_UNITS[found[2]]}"


def compact(spark: "SparkSession", table: Table, size: int) -> int:
    """Merge our small files into such of about `size` bytes, on the executors; answers how many are gone."""
    bins = bins_of(table.small_files(size * 3 // 4), size)
    if not bins:
        return 0
    directory = table.live_directory
    target = Target(table.data_directory, "merged", size, None)
    names = [[file.name for file in files] for files in bins]

    def merge(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from merge_files(directory, names[number], target)

    merged = spark.range(0, len(names), 1, len(names)).mapInArrow(merge, WRITTEN_COLUMNS)
    new = [DataFile(row.name, row.size, row.rows, row.stats) for row in merged.collect()]
    table.replace([file for files in bins for file in files], new)
    return sum(map(len, bins))


class _BatchWriter:
    """What Spark calls for each micro-batch, on the driver."""

    def __init__(
        self,
        spark: "SparkSession",
        client: ClientSettings,
        topics: Sequence[str],
        table: Table,
        columns: PlaceColumns,
        compact_to: int | None,
        committed: Callable[[Committed], None] | None,
    ) -> None:
        self._spark = spark
        self._client = client
        self._topics = topics
        self._table = table
        self._columns = columns
        self._compact_to = compact_to
        self._committed = committed
        self._ours: Marks | None = None
        """The marks as this process left them: as long as they stand, no row of a new batch can be in the table."""

    def write(self, batch: "DataFrame", number: int) -> None:
        """Files by the executors, one commit by us."""
        began = time.monotonic()
        sources = find_sources(self._client, self._topics)
        known = self._table.marks(sources.values())
        fresh = batch if known == self._ours else self._without_known(batch, sources, known)
        target = Target(self._table.data_directory, f"{number:06d}", self._compact_to or FILE_BYTES, self._columns)

        def write(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
            return write_files(batches, target)

        written = fresh.mapInArrow(write, WRITTEN_COLUMNS).collect()
        files = [DataFile(row.name, row.size, row.rows, row.stats) for row in written]
        moved = self._moved([each for row in written for each in row.ranges], sources)
        version = self._table.append(files, moved, f"batch {number}") if files else ""
        self._ours = known | moved
        merged = self._compact()
        if self._committed is not None:
            rows, size = sum(file.rows for file in files), sum(file.size for file in files)
            seconds = time.monotonic() - began
            self._committed(Committed(number, rows, len(files), size, version, merged, seconds))

    def _without_known(self, batch: "DataFrame", sources: Mapping[TopicPartition, Mark], known: Marks) -> "DataFrame":
        """Only the rows at or above the marks."""
        from pyspark.sql import functions as f

        rows = [(*where, known[mark]) for where, mark in sources.items() if mark in known]
        if not rows:
            return batch
        topic, partition, offset = self._columns
        marks = batch.sparkSession.createDataFrame(rows, "mark_topic string, mark_partition int, mark bigint")
        same_place = (f.col(topic) == f.col("mark_topic")) & (f.col(partition) == f.col("mark_partition"))
        joined = batch.join(f.broadcast(marks), same_place, "left")
        return joined.where(f.col("mark").isNull() | (f.col(offset) >= f.col("mark"))).select(*batch.columns)

    def _moved(self, ranges: Sequence[Any], sources: Mapping[TopicPartition, Mark]) -> Marks:
        """The marks behind what was written. A partition may be so new that not every broker has heard of it."""
        deadline = time.monotonic() + NEWS_SECONDS
        while missing := {TopicPartition(each.topic, each.partition) for each in ranges} - sources.keys():
            if time.monotonic() > deadline:
                raise TableError(f"{min(missing)} was read, and now no broker knows of it: was the topic deleted?")
            time.sleep(NEWS_PAUSE_SECONDS)
            sources = find_sources(self._client, self._topics)
        moved: Marks = {}
        for each in ranges:
            mark = sources[TopicPartition(each.topic, each.partition)]
            moved[mark] = max(moved.get(mark, 0), each.end)
        return moved

    def _compact(self) -> int:
        if self._compact_to is None:
            return 0
        try:
            if len(self._table.small_files(self._compact_to * 3 // 4)) < SMALL_FILES_MIN:
                return 0
            return compact(self._spark, self._table, self._compact_to)
        except TableConflictError:
            return 0  # somebody changed these very files: the next time will do


def find_sources(client: ClientSettings, topics: Sequence[str]) -> dict[TopicPartition, Mark]:
    """Every partition of these topics, with the name of its mark."""

    async def ask(cluster: Cluster) -> list[Topic]:
        return [await cluster.retrying(partial(cluster.topic, name)) for name in topics]

    with BlockingCluster(client) as cluster:
        found = cluster.run(ask)
    return {TopicPartition(topic.name, index): Mark(topic.id, index) for topic in found for index in topic.partitions}


def _starting_offsets(sources: Mapping[TopicPartition, Mark], table: Table) -> str:
    """Where a query without a checkpoint begins: where the table ends, or at the beginning."""
    marks = table.marks(sources.values())
    offsets: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for where, mark in sources.items():
        offsets[where.topic][str(where.partition)] = marks.get(mark, EARLIEST)
    return json.dumps(offsets)


def _nothing(spark: "SparkSession", bootstrap: str, topics: Sequence[str], options: Mapping[str, str]) -> "DataFrame":
    """The columns of the source, for the table's."""
    return read_stream(spark, bootstrap, topics, starting="earliest", options=options)


def _arrow_schema(frame: "DataFrame") -> "pa.Schema":
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(frame.schema, timezone="UTC")
