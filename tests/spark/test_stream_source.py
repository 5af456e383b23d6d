"""Streaming reads: admission, growth, restarts, and what becomes of records that are gone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest

from hightide.spark import read_stream
from hightide.testing import Cluster
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WAIT_SECONDS = 90


class Stream:
    """A streaming query into Parquet files, with its checkpoint: to be started again as after a crash."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self.spark = spark
        self.output = directory / "output"
        self.checkpoint = directory / "checkpoint"
        self.query: StreamingQuery | None = None

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.select("partition", "offset", "value").writeStream.format("parquet")
        writer = writer.option("checkpointLocation", str(self.checkpoint)).option("path", str(self.output))
        self.query = writer.trigger(**trigger or {"processingTime": "0 seconds"}).start()
        return self.query

    def run(self, frame: DataFrame) -> list[dict[str, Any]]:
        """Read what is there and end; the progress of its batches."""
        query = self.start(frame, availableNow=True)
        assert query.awaitTermination(WAIT_SECONDS)
        return [dict(json.loads(progress.json)) for progress in query.recentProgress if progress.numInputRows]

    def values(self) -> list[bytes]:
        """What the batches that are committed have brought, read without Spark: it is asked for often."""
        lines = [
            line
            for log in self.output.glob("_spark_metadata/*")
            if not log.name.startswith(".")
            for line in log.read_text().splitlines()[1:]
        ]
        files = [unquote(urlsplit(json.loads(line)["path"]).path) for line in lines]
        rows = [row for file in files for row in pq.read_table(file).to_pylist()]
        return [row["value"] for row in sorted(rows, key=lambda row: (row["partition"], row["offset"]))]

    def await_values(self, cluster: Cluster, expected: int) -> list[bytes]:
        def is_there() -> bool:
            assert self.query is not None
            if self.query.exception() is not None:
                raise AssertionError(str(self.query.exception()))
            return len(self.values()) >= expected

        cluster.wait_for(is_there, f"{expected} rows", WAIT_SECONDS)
        return self.values()

    def stop(self) -> None:
        if self.query is not None:
            self.query.stop()


@pytest.fixture
def stream(spark: SparkSession, tmp_path: Path) -> Iterator[Stream]:
    made = Stream(spark, tmp_path)
    yield made
    made.stop()


def numbered(*ranges: range) -> list[bytes]:
    return [b"v%d" % index for each in ranges for index in each]


@pytest.mark.covers("S1")
def test_batches_are_as_large_as_the_options_say(
    spark: SparkSession, stream: Stream, topics: Topics, topic: Callable[..., str]
) -> None:
    name = topic(2)
    topics.fill(name, 300, partition=0)
    topics.fill(name, 100, partition=1)
    options = {"maxOffsetsPerTrigger": "200"}
    frame = read_stream(spark, topics.bootstrap, name, starting="earliest", options=options)
    progress = stream.run(frame)
    assert [batch["numInputRows"] for batch in progress] == [200, 200]
    ends = [json.loads(json.dumps(batch["sources"][0]["endOffset"])) for batch in progress]
    assert [end[name] for end in ends] == [{"0": 150, "1": 50}, {"0": 300, "1": 100}]
    assert progress[0]["sources"][0]["latestOffset"] == {name: {"0": 300, "1": 100}}
    assert stream.values() == numbered(range(300), range(100))
    # Started again, it goes on where it was, and ends when it has what was there.
    topics.fill(name, 10, partition=1, first=100)
    assert [batch["numInputRows"] for batch in stream.run(frame)] == [10]
    assert stream.values() == numbered(range(300), range(110))


@pytest.mark.covers("S1")
def test_the_first_batch_begins_at_the_same_offset_when_it_is_replayed(
    spark: SparkSession, stream: Stream, topics: Topics, topic: Callable[..., str]
) -> None:
    name = topic()
    topics.fill(name, 10)
    frame = read_stream(spark, topics.bootstrap, name, starting="latest")
    assert stream.run(frame) == []
    topics.fill(name, 5, first=10)
    # As after a crash in batch 0: its offsets are written (they say where it began), its output and commit are not.
    offsets = stream.checkpoint / "offsets" / "0"
    version, metadata, offset = offsets.read_text().splitlines()
    assert json.loads(offset) == {name: {"0": 10}, "@start": {name: {"0": 10}}}
    longer = json.dumps({name: {"0": 15}, "@start": {name: {"0": 10}}})
    shutil.rmtree(stream.output)
    for each in ("commits", "offsets"):
        for file in (stream.checkpoint / each).iterdir():
            file.unlink()
    offsets.write_text("\n".join([version, metadata, longer]))
    topics.fill(name, 5, first=15)
    stream.run(frame)
    assert stream.values() == numbered(range(10, 20))


@pytest.mark.covers("S1")
def test_partitions_topics_and_leaders_come_and_go_while_it_runs(
    spark: SparkSession, stream: Stream, topics: Topics, topic: Callable[..., str], cluster: Cluster
) -> None:
    name = topic(1, prefix="grow")
    topics.fill(name, 20)
    frame = (
        spark.readStream.format("hightide")
        .option("kafka.bootstrap.servers", topics.bootstrap)
        .option("subscribePattern", f"{name}.*")
        .option("startingOffsets", "earliest")
        .load()
    )
    stream.start(frame)
    assert stream.await_values(cluster, 20) == numbered(range(20))
    topics.add_partitions(name, 2)
    topics.fill(name, 10, partition=1)
    assert stream.await_values(cluster, 30) == numbered(range(20), range(10))
    cluster.create_topic(f"{name}-more")
    topics.fill(f"{name}-more", 5)
    assert len(stream.await_values(cluster, 35)) == 35
    leader = cluster.leader_of(name)
    assert leader is not None
    cluster.kill(leader)
    try:
        topics.fill(name, 30, first=20)
        assert len(stream.await_values(cluster, 65)) == 65
    finally:
        stream.stop()
        cluster.start(leader)
        cluster.wait_healthy()
    values = stream.values()
    assert sorted(values) == sorted(numbered(range(50), range(10), range(5)))


@pytest.mark.covers("S1")
def test_records_that_are_gone_end_a_query_or_are_skipped(
    spark: SparkSession, stream: Stream, topics: Topics, topic: Callable[..., str]
) -> None:
    name = topic()
    topics.fill(name, 10)

    def frame(**options: str) -> DataFrame:
        return read_stream(spark, topics.bootstrap, name, starting="earliest", options=options)

    stream.run(frame())
    topics.fill(name, 20, first=10)
    topics.delete_records(name, 15)
    failing = stream.start(frame(), availableNow=True)
    with pytest.raises(Exception, match=r"Offsets 10 to 14 of partition .* are gone: it begins at 15"):
        failing.awaitTermination(WAIT_SECONDS)
    stream.run(frame(failOnDataLoss="false"))
    assert stream.values() == numbered(range(10), range(15, 30))


def test_a_batch_waits_for_enough_records(
    spark: SparkSession, stream: Stream, topics: Topics, topic: Callable[..., str], cluster: Cluster
) -> None:
    name = topic()
    topics.fill(name, 5)
    options = {"minOffsetsPerTrigger": "50", "maxTriggerDelay": "1h"}
    query = stream.start(read_stream(spark, topics.bootstrap, name, starting="earliest", options=options))
    stream.await_values(cluster, 5)  # the first one never waits
    topics.fill(name, 20, first=5)
    cluster.wait_for(lambda: _latest(query, name) == 25, "the query knows of the new records", WAIT_SECONDS)
    assert len(stream.values()) == 5
    topics.fill(name, 30, first=25)
    assert stream.await_values(cluster, 55) == numbered(range(55))


def _latest(query: StreamingQuery, name: str) -> int | None:
    progress = query.lastProgress
    if progress is None:
        return None
    latest = progress.sources[0].latestOffset
    return None if latest is None else int(json.loads(latest)[name]["0"])
