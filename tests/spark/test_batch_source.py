"""Batch reads from topics and from segment files."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from hightide.spark import read
from hightide.testing import Cluster
from hightide.wire.compression import Codec
from hightide.wire.records import Record
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOW = 1_700_000_000_000
COUNT = 60


@pytest.fixture(scope="module")
def filled(cluster: Cluster, topics: Topics) -> str:
    """A topic with a partition per codec, records a second apart, every second of them with headers."""
    cluster.create_topic("filled", len(Codec), configs={"retention.ms": "-1"})
    for partition, codec in enumerate(Codec):
        records = [
            Record(
                timestamp=NOW + 1000 * index,
                key=None if index % 3 == 0 else b"k%d" % index,
                value=None if index % 7 == 0 else b"v%d" % index,
                headers=[("n", b"%d" % index), ("nothing", None)] if index % 2 else [],
            )
            for index in range(COUNT)
        ]
        topics.send("filled", records, partition=partition, codec=codec)
    return "filled"


def load(spark: SparkSession, topics: Topics, **options: str) -> DataFrame:
    return spark.read.format("hightide").option("kafka.bootstrap.servers", topics.bootstrap).options(**options).load()


def offsets_of(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@pytest.mark.covers("S1")
def test_a_topic_is_a_data_frame(spark: SparkSession, topics: Topics, filled: str) -> None:
    frame = read(spark, topics.bootstrap, filled, options={"includeHeaders": "true"})
    rows = sorted(frame.collect(), key=lambda row: (row.partition, row.offset))
    expected = [
        (
            None if index % 3 == 0 else b"k%d" % index,
            None if index % 7 == 0 else b"v%d" % index,
            filled,
            int(codec),
            index,
            datetime.fromtimestamp(NOW / 1000 + index, UTC).replace(tzinfo=None),
            0,
            [("n", b"%d" % index), ("nothing", None)] if index % 2 else None,
        )
        for codec in Codec
        for index in range(COUNT)
    ]
    assert [_plain(row) for row in rows] == expected


def _plain(row: Any) -> tuple[Any, ...]:
    key, value, *middle, headers = row
    return (
        None if key is None else bytes(key),
        None if value is None else bytes(value),
        *middle,
        headers and [(name, None if content is None else bytes(content)) for name, content in headers],
    )


@pytest.mark.covers("S1")
def test_a_data_frame_is_the_same_after_a_filter_and_a_choice_of_columns(
    spark: SparkSession, topics: Topics, filled: str
) -> None:
    frame = load(spark, topics, subscribe=filled, columns="offset,partition,value", minPartitions="8")
    assert frame.columns == ["value", "partition", "offset"]
    assert frame.rdd.getNumPartitions() >= 8
    assert frame.where("offset < 10 AND partition = 1").count() == 10
    assert offsets_of(frame) == [(int(codec), index) for codec in Codec for index in range(COUNT)]


POSITIONS: list[tuple[dict[str, str], list[tuple[int, int]]]] = [
    (
        {
            "assign": '{"filled": [0, 2]}',
            "startingOffsets": '{"filled": {"0": 50, "2": -2}}',
            "endingOffsets": '{"filled": {"0": -1, "2": 3}}',
            "maxRecordsPerPartition": "4",
        },
        [(0, offset) for offset in range(50, COUNT)] + [(2, offset) for offset in range(3)],
    ),
    (
        {
            "subscribePattern": "fil+ed",
            "startingTimestamp": str(NOW + 20_500),
            "endingOffsetsByTimestamp": json.dumps({"filled": {str(int(codec)): NOW + 22_000 for codec in Codec}}),
        },
        [(int(codec), 21) for codec in Codec],
    ),
    (
        {
            "assign": '{"filled": [1]}',
            "startingOffsetsByTimestamp": json.dumps({"filled": {"1": NOW + 10**9}}),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        [],
    ),
]


@pytest.mark.covers("S1")
@pytest.mark.parametrize(("options", "expected"), POSITIONS)
def test_positions_mean_what_they_mean_to_the_connector(
    spark: SparkSession, topics: Topics, filled: str, options: dict[str, str], expected: list[tuple[int, int]]
) -> None:
    assert offsets_of(load(spark, topics, **options)) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nothing-here"}, "topic nothing-here does not exist"),
        ({"assign": '{"filled": [7]}'}, "partitions that do not exist: filled-7"),
        (
            {"subscribe": "filled", "startingTimestamp": str(NOW + 10**9)},
            "No offset matched from request of topic-partition filled-0",
        ),
        ({"subscribe": "filled", "startingOffsets": '{"filled": {"0": 0}}'}, "don't match what are assigned"),
        (
            {"assign": '{"filled": [0]}', "startingOffsets": '{"filled": {"0": 99}}'},
            "The resolved start offset 99 is greater than the resolved end offset 60",
        ),
        (
            {"assign": '{"filled": [0]}', "endingOffsets": '{"filled": {"0": 99}}'},
            "Offsets 60 to 98 of partition filled-0 are not there",
        ),
    ],
)
def test_what_is_not_there_is_told(
    spark: SparkSession, topics: Topics, filled: str, options: dict[str, str], message: str
) -> None:
    from hightide.spark.options import source_options
    from hightide.spark.source import BatchReader

    given = {"kafka.bootstrap.servers": topics.bootstrap} | options
    with pytest.raises((ValueError, RuntimeError), match=message):
        BatchReader(source_options(given, streaming=False)).partitions()


@pytest.mark.covers("S1")
def test_records_that_are_gone_end_a_batch_or_are_left_out(
    spark: SparkSession, topics: Topics, topic: Callable[..., str]
) -> None:
    name = topic()
    topics.fill(name, 30)
    options = {"startingOffsets": json.dumps({name: {"0": 5}}), "endingOffsets": json.dumps({name: {"0": 40}})}
    topics.delete_records(name, 10)
    with pytest.raises(Exception, match="are not there"):
        load(spark, topics, subscribe=name, **options).count()
    left = load(spark, topics, subscribe=name, failOnDataLoss="false", **options)
    assert offsets_of(left) == [(0, offset) for offset in range(10, 30)]


@pytest.mark.covers("S1")
def test_segment_files_are_a_data_frame_without_a_broker(
    spark: SparkSession, topics: Topics, cluster: Cluster, filled: str
) -> None:
    leader = cluster.leader_of(filled, 4)
    assert leader is not None
    data = cluster.node(leader).data_directory
    frame = spark.read.format("hightide").option("includeHeaders", "true").load(str(data / f"{filled}-4"))
    rows = sorted(frame.collect(), key=lambda row: row.offset)
    same = read(spark, topics.bootstrap, filled, options={"includeHeaders": "true"}).where("partition = 4").collect()
    assert rows == sorted(same, key=lambda row: row.offset)
    assert len(rows) == COUNT
