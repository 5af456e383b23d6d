"""Reading and writing topics as DataFrames: the most used options of the source and the sink as arguments.

    orders = read(spark, "127.0.0.1:9092", "orders", starting="earliest")
    write(orders.select("key", "value"), "127.0.0.1:9092", "copy", options={"kafka.compression.type": "zstd"})

All other options go into `options`, by the names that docs/spark.md lists.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "hightide"


def read(
    spark: "SparkSession",
    bootstrap: str,
    topics: str | Sequence[str],
    *,
    starting: str = "earliest",
    ending: str = "latest",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """What these topics hold now; `starting` and `ending` as `startingOffsets` and `endingOffsets`."""
    given = _subscription(bootstrap, topics) | {"startingOffsets": starting, "endingOffsets": ending}
    return spark.read.format(FORMAT).options(**given | dict(options or {})).load()


def read_stream(
    spark: "SparkSession",
    bootstrap: str,
    topics: str | Sequence[str],
    *,
    starting: str = "latest",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """What these topics get from now on, or from `starting` on."""
    given = _subscription(bootstrap, topics) | {"startingOffsets": starting}
    return spark.readStream.format(FORMAT).options(**given | dict(options or {})).load()


def write(
    frame: "DataFrame", bootstrap: str, topic: str | None = None, *, options: Mapping[str, str] | None = None
) -> "DataStreamWriter | None":
    """Append a DataFrame to a topic, or to those that its column `topic` names.

    A batch is written when this returns. For a stream this returns its writer: set the checkpoint and start it.
    """
    given = {"kafka.bootstrap.servers": bootstrap} | ({} if topic is None else {"topic": topic}) | dict(options or {})
    if frame.isStreaming:
        return frame.writeStream.format(FORMAT).options(**given)
    frame.write.format(FORMAT).mode("append").options(**given).save()
    return None


def _subscription(bootstrap: str, topics: str | Sequence[str]) -> dict[str, str]:
    names = topics if isinstance(topics, str) else ",".join(topics)
    return {"kafka.bootstrap.servers": bootstrap, "subscribe": names}
