"""The data source `hightide`: what Spark asks for a reader or a writer by the name of the format.

Law: options are checked when Spark asks for a reader, so that a mistake is told before a query starts; readers hold no
connection when they are pickled; filters are not pushed down, since Spark keeps a reader per DataFrame and a pushed
filter would leak into later actions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from hightide.spark.blocking import BlockingCluster
from hightide.spark.offsets import OffsetFinder, Offsets
from hightide.spark.options import SourceOptions, chosen_columns, source_options
from hightide.spark.planning import plan_ranges, report_loss, split_ranges
from hightide.spark.schema import spark_schema
from hightide.spark.tasks import RangePartition, SegmentPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class HightideDataSource(DataSource):
    """`spark.read.format("hightide")` and its three relatives."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "hightide"

    def schema(self) -> "StructType":
        """The columns of a record; `includeHeaders` and `columns` decide which."""
        return spark_schema(chosen_columns(self.options))

    def reader(self, schema: "StructType") -> DataSourceReader:
        """For `spark.read`."""
        self._check_schema(schema)
        return BatchReader(source_options(self.options, streaming=False))

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:
        """For `spark.readStream`."""
        from hightide.spark.stream import StreamReader

        self._check_schema(schema)
        return StreamReader(source_options(self.options, streaming=True))

    def _check_schema(self, schema: "StructType") -> None:
        if schema.simpleString() != self.schema().simpleString():
            raise ValueError("Kafka source has a fixed schema and cannot be set with a custom one")

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """For `df.write`."""
        from hightide.spark.sink import BatchWriter, sink_options

        if overwrite:
            raise ValueError(
                "Save mode Overwrite not allowed for Kafka: a topic is only ever appended to. Use mode append."
            )
        return BatchWriter(sink_options(self.options, schema))

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:
        """For `df.writeStream`; a complete result (`overwrite`) is appended whole, as in the stock connector."""
        from hightide.spark.sink import StreamWriter, sink_options

        return StreamWriter(sink_options(self.options, schema))


class BatchReader(DataSourceReader):
    """A batch read: offsets are looked up once, when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One task per partition, or more as the options say."""
        options = self._options
        if options.path is not None:
            from hightide.spark.segments import find_segments

            found = find_segments(options.path, read_committed=options.read_committed)
            return [SegmentPartition(segment) for segment in found]
        assert options.client is not None
        with BlockingCluster(options.client) as cluster:
            finder = OffsetFinder(cluster, options)
            start = finder.resolve(options.starting, starting=True)
            end = finder.resolve(options.ending, starting=False)
            _check_order(start, end)
            earliest, latest = finder.earliest(end), finder.latest(end, end)
        for where in sorted(where for where in end if end[where] > latest[where]):
            what = f"Offsets {latest[where]} to {end[where] - 1} of partition {where} are not there."
            report_loss(what, fail=options.fail_on_data_loss)
            end[where] = max(latest[where], min(start[where], end[where]))
        ranges = plan_ranges(start, end, earliest, fail_on_data_loss=options.fail_on_data_loss)
        pieces = split_ranges(ranges, options.partitions_min, options.records_per_partition_max)
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """What a task brings; Spark plans one empty task where there is nothing to read."""
        from hightide.spark.reading import read_range
        from hightide.spark.segments import read_segment

        if isinstance(partition, RangePartition):
            yield from read_range(partition.wanted, self._options)
        elif isinstance(partition, SegmentPartition):
            yield from read_segment(partition.segment, self._options)


def _check_order(start: Offsets, end: Offsets) -> None:
    for where in sorted(start.keys() & end.keys()):
        if start[where] > end[where]:
            raise ValueError(
                f"The resolved start offset {start[where]} is greater than the resolved end offset {end[where]} for "
                f"topic {where.topic} partition {where.partition}: check where it is to start and to end"
            )
