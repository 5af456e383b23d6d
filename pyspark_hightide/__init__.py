"""Where Spark finds the data source `hightide` by itself: it looks for modules whose names begin with `pyspark_`."""

from hightide.spark.source import HightideDataSource as DefaultSource

__all__ = ["DefaultSource"]
