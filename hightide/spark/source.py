"""The data source `hightide`: what Spark asks for a reader or a writer by the name of the format.

Law: options are checked when Spark asks for a reader, so that a mistake is told before a query starts; readers hold no
connection when they are pickled; filters are not pushed down, since Spark keeps a reader per DataFrame and a pushed
filter would leak into later actions.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from hightide.spark.options import SourceOptions, chosen_columns, source_options
from hightide.spark.planning import OffsetRange, plan_ranges, split_ranges
from hightide.spark.schema import spark_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class RangePartition(InputPartition):
    """A task of the source."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.wanted = wanted


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
        return BatchReader(source_options(self.options, streaming=False))


class BatchReader(DataSourceReader):
    """A batch read: offsets are looked up once, when the query is planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[InputPartition]:
        """One task per partition, or more as the options say."""
        from hightide.spark.blocking import BlockingCluster
        from hightide.spark.offsets import OffsetFinder

        options = self._options
        assert options.client is not None
        with BlockingCluster(options.client) as cluster:
            finder = OffsetFinder(cluster, options)
            start = finder.resolve(options.starting, starting=True)
            end = finder.resolve(options.ending, starting=False)
            earliest = finder.earliest(end)
        ranges = plan_ranges(start, end, earliest, fail_on_data_loss=options.fail_on_data_loss)
        pieces = split_ranges(ranges, options.partitions_min, options.records_per_partition_max)
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """What a task brings; Spark plans one empty task where there is nothing to read."""
        from hightide.spark.reading import read_range

        if isinstance(partition, RangePartition):
            yield from read_range(partition.wanted, self._options)
