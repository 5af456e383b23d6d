"""Writing DataFrames into topics, batch and streaming."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hightide.client.partitioner import partition_for_key
from hightide.spark import read_stream, write
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = "key binary, value string, headers array<struct<key: string, value: binary>>, topic string, partition int"
WAIT_SECONDS = 120


@pytest.mark.covers("S2")
def test_every_row_becomes_a_record_where_the_columns_say(
    spark: SparkSession, topics: Topics, topic: Callable[..., str]
) -> None:
    one, two = topic(3), topic(1)
    rows: list[tuple[Any, ...]] = [
        (b"k%d" % index, f"väl {index}", [("trace", b"%d" % index), ("empty", None)], one, None) for index in range(50)
    ]
    rows += [(None, "chosen", None, one, 2), (b"key", None, [], two, None)]
    frame = spark.createDataFrame(rows, ROWS)
    write(frame, topics.bootstrap, options={"kafka.compression.type": "zstd", "kafka.client.id": "sink"})
    found = topics.records(one)
    assert len(found) == 51
    for record in found:
        if record.key is None:
            assert (record.partition, record.value, record.headers) == (2, b"chosen", ())
        else:
            index = int(record.key[1:])
            assert record.partition == partition_for_key(record.key, 3)
            assert record.value == f"väl {index}".encode()
            assert list(record.headers) == [("trace", b"%d" % index), ("empty", None)]
    (tombstone,) = topics.records(two)
    assert (tombstone.key, tombstone.value, tombstone.headers) == (b"key", None, ())


@pytest.mark.covers("S2")
def test_large_batches_are_cut_to_what_a_topic_takes(
    spark: SparkSession, topics: Topics, topic: Callable[..., str]
) -> None:
    name = topic(1, configs={"max.message.bytes": "20000"})
    frame = spark.range(400).selectExpr(
        "CAST(id AS STRING) AS key", "CAST(id AS STRING) || repeat('x', 200) AS value", "0 AS partition"
    )
    write(frame.coalesce(1), topics.bootstrap, name)
    assert [record.key for record in topics.records(name)] == [b"%d" % index for index in range(400)]


def test_a_topic_that_can_not_be_is_told(spark: SparkSession, topics: Topics) -> None:
    with pytest.raises(Exception, match="topic no such topic!"):
        write(spark.range(1).selectExpr("'v' AS value"), topics.bootstrap, "no such topic!")


@pytest.mark.covers("S2")
def test_a_stream_from_topic_to_topic(
    spark: SparkSession, topics: Topics, topic: Callable[..., str], tmp_path: Path
) -> None:
    source, target = topic(2), topic(2)
    topics.fill(source, 100, partition=0)
    topics.fill(source, 50, partition=1)
    frame = read_stream(spark, topics.bootstrap, source, starting="earliest", options={"maxOffsetsPerTrigger": "100"})
    writer = write(frame.select("key", "value", "partition"), topics.bootstrap, target)
    assert writer is not None
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_SECONDS)
    copied = [(record.partition, record.key, record.value) for record in topics.records(target)]
    assert copied == [(record.partition, record.key, record.value) for record in topics.records(source)]


def test_spark_tells_a_task_which_batch_it_writes(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Spark's own names, which an exactly-once sink will build on: a release that renames them fails here."""
    from hightide.spark.sink import TaskIdentity

    def identities(_: Any) -> Any:
        import pandas as pd

        yield pd.DataFrame([[*map(str, TaskIdentity.of_this_task())]], columns=["query", "batch", "partition"])

    frame = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    mapped = frame.mapInPandas(identities, "query string, batch string, partition string")
    query = mapped.writeStream.format("memory").queryName("identities").trigger(availableNow=True)
    running = query.option("checkpointLocation", str(tmp_path)).start()
    assert running.awaitTermination(WAIT_SECONDS)
    rows = spark.sql("SELECT DISTINCT query, batch FROM identities").collect()
    assert [(row.query, row.batch) for row in rows] == [(str(running.id), "0")]
