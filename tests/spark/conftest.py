"""Fixtures of the Spark tests: one session and one cluster of three brokers for all of them, which therefore run in one
worker, and ways to fill topics and look into DataFrames."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from hightide.testing import Cluster
from tests.spark.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_itemcollected(item: pytest.Item) -> None:
    """A session takes ten seconds and a gigabyte: all tests of this folder share one, and so a worker."""
    item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from hightide.spark import session

    made = session(
        "local[2]",
        name="hightide-tests",
        conf={
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # a short life on few cores
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
            "spark.task.maxFailures": "2",
        },
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    for query in made.streams.active:
        query.stop()
    made.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Three brokers. Whoever stops one starts it again."""
    with Cluster(brokers=3) as made:
        yield made


@pytest.fixture(scope="session")
def topics(cluster: Cluster) -> Iterator[Topics]:
    with Topics(cluster) as made:
        yield made


@pytest.fixture
def topic(cluster: Cluster) -> Callable[..., str]:
    """Creates a topic with a name of its own."""

    def create(partitions: int = 1, prefix: str = "orders", **options: object) -> str:
        name = f"{prefix}-{uuid.uuid4().hex[:8]}"
        cluster.create_topic(name, partitions, **options)  # type: ignore[arg-type]
        return name

    return create
