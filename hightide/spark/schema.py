"""The columns of a record, as the stock connector names and types them, for Spark and for Arrow."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

HEADERS = "headers"
COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")


def spark_schema(columns: Sequence[str]) -> "StructType":
    """These columns as Spark types."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    types = {
        "key": BinaryType(),
        "value": BinaryType(),
        "topic": StringType(),
        "partition": IntegerType(),
        "offset": LongType(),
        "timestamp": TimestampType(),
        "timestampType": IntegerType(),
        HEADERS: ArrayType(header),
    }
    return StructType([StructField(name, types[name]) for name in columns])


def arrow_schema(columns: Sequence[str]) -> "pa.Schema":
    """These columns as the Arrow types that Spark makes of its own: only the first batch of a task is compared."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "timestampType": pa.int32(),
        HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[name]) for name in columns])
