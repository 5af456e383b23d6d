"""Batch reads from topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from hightide.spark import read
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.covers("S1")
def test_a_topic_is_a_data_frame(spark: SparkSession, topics: Topics, topic: Callable[..., str]) -> None:
    name = topic(2)
    topics.fill(name, 100, partition=0)
    topics.fill(name, 50, partition=1)
    rows = read(spark, topics.bootstrap, name).select("partition", "offset", "key", "value", "topic").collect()
    found = sorted((row.partition, row.offset, bytes(row.key), bytes(row.value), row.topic) for row in rows)
    expected = [
        (partition, index, b"k%d" % index, b"v%d" % index, name)
        for partition, count in ((0, 100), (1, 50))
        for index in range(count)
    ]
    assert found == expected
