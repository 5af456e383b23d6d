"""What the driver sends to the executors: a task of the source is a range of offsets or a segment file."""

from pyspark.sql.datasource import InputPartition

from hightide.spark.planning import OffsetRange
from hightide.spark.segments import Segment


class RangePartition(InputPartition):
    """Some offsets of one partition, from its leader."""

    def __init__(self, wanted: OffsetRange) -> None:
        self.wanted = wanted


class SegmentPartition(InputPartition):
    """One file."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
