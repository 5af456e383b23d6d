"""What tasks do, without Spark around them: records that go while they are read, leaders that die while they write."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hightide.spark.encoding import SinkError
from hightide.spark.options import SourceOptions, source_options
from hightide.spark.planning import DataLossError, OffsetRange
from hightide.spark.reading import read_range
from hightide.spark.segments import find_segments, read_segment
from hightide.spark.sink import SinkOptions, sink_options, write_rows
from hightide.testing import Cluster
from hightide.types import TopicPartition
from hightide.wire.batches import build_batch
from hightide.wire.records import ControlType, Record, control_key
from tests.spark.topics import Topics


def source(topics: Topics, name: str, **options: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": name, "columns": "value"}
    return source_options(given | options, streaming=False)


def values(name: str, start: int, end: int, options: SourceOptions) -> list[bytes]:
    wanted = OffsetRange(TopicPartition(name, 0), start, end)
    return [value for batch in read_range(wanted, options) for value in batch.column("value").to_pylist()]


def numbered(start: int, end: int) -> list[bytes]:
    return [b"v%d" % index for index in range(start, end)]


@pytest.mark.covers("S1")
def test_a_range_is_read_in_many_fetches(topics: Topics, topic: Callable[..., str]) -> None:
    name = topic()
    for first in range(0, 200, 20):
        topics.fill(name, 20, first=first)
    small = source(topics, name, **{"kafka.max.partition.fetch.bytes": "500"})
    assert values(name, 7, 193, small) == numbered(7, 193)


@pytest.mark.covers("S1")
def test_records_that_go_between_planning_and_reading(
    topics: Topics, topic: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    name = topic()
    topics.fill(name, 30)
    topics.delete_records(name, 10)
    with pytest.raises(DataLossError, match=r"Offsets 0 to 9 of partition .* are gone: it begins at 10"):
        values(name, 0, 30, source(topics, name))
    lenient = source(topics, name, failOnDataLoss="false")
    with caplog.at_level(logging.WARNING):
        assert values(name, 0, 30, lenient) == numbered(10, 30)
        assert values(name, 0, 5, lenient) == []
    assert "are gone: it begins at 10" in caplog.text


@pytest.mark.covers("S1")
def test_a_range_beyond_the_end(topics: Topics, topic: Callable[..., str]) -> None:
    name = topic()
    topics.fill(name, 30)
    with pytest.raises(DataLossError, match=r"Offsets 40 to 49 of partition .* are gone: it ends at 30"):
        values(name, 40, 50, source(topics, name))
    assert values(name, 40, 50, source(topics, name, failOnDataLoss="false")) == []
    # At the very end there may be records soon: the task waits for them, and not for ever.
    patient = source(topics, name, **{"kafkaConsumer.pollTimeoutMs": "300", "kafka.fetch.max.wait.ms": "50"})
    with pytest.raises(Exception, match="Cannot fetch record for offset 30"):
        values(name, 25, 31, patient)


def test_a_topic_that_is_deleted(topics: Topics, topic: Callable[..., str]) -> None:
    name = topic()
    topics.fill(name, 5)
    topics.delete(name)
    assert values(name, 0, 5, source(topics, name, failOnDataLoss="false")) == []


def sink(topics: Topics, name: str, **options: str) -> SinkOptions:
    from pyspark.sql.types import StructType

    given = {"kafka.bootstrap.servers": topics.bootstrap, "topic": name}
    return sink_options(given | options, StructType().add("value", "string"))


@pytest.mark.covers("S2")
def test_a_leader_that_dies_while_it_is_written_to_and_read(
    cluster: Cluster, topics: Topics, topic: Callable[..., str]
) -> None:
    """Nothing twice, nothing lost: a task's producer repeats what it does not know to be kept, and is recognised."""
    name = topic(1)
    leader = cluster.leader_of(name)
    assert leader is not None

    def rows() -> Iterator[pa.RecordBatch]:
        for first in range(0, 400, 10):
            if first == 200:
                cluster.kill(leader)
            yield pa.record_batch({"value": [f"v{index}" for index in range(first, first + 10)]})

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("hightide.spark.sink.ENCODE_BYTES", 1)  # every few rows are a batch of their own
            written = write_rows(rows(), sink(topics, name))
        assert written.records == 400
        assert values(name, 0, 400, source(topics, name)) == numbered(0, 400)
    finally:
        cluster.start(leader)
        cluster.wait_healthy()
    assert [record.value for record in topics.records(name)] == numbered(0, 400)


@pytest.mark.covers("S2")
def test_a_record_that_a_topic_does_not_take(topics: Topics, topic: Callable[..., str]) -> None:
    name = topic(1, configs={"max.message.bytes": "2000"})
    rows = pa.record_batch({"value": ["small", "x" * 5000]})
    with pytest.raises(SinkError, match=r"larger than topic .* takes: raise its max.message.bytes"):
        write_rows(iter([rows]), sink(topics, name))


@pytest.mark.parametrize("acks", ["0", "1"])
def test_acknowledgements_as_asked_for(cluster: Cluster, topics: Topics, topic: Callable[..., str], acks: str) -> None:
    name = topic(1)
    rows = pa.record_batch({"value": ["a", "b"]})
    write_rows(iter([rows]), sink(topics, name, **{"kafka.acks": acks}))
    cluster.wait_for(lambda: len(topics.records(name)) == 2, "both records are there")


@pytest.mark.covers("S1")
def test_segment_files_with_transactions_and_a_torn_end(tmp_path: Path) -> None:
    directory = tmp_path / "orders-2"
    directory.mkdir()
    transaction = {"producer_id": 7, "producer_epoch": 0, "transactional": True}

    def batch(offset: int, value: bytes, **attributes: object) -> bytearray:
        return build_batch([Record(timestamp=0, value=value)], base_offset=offset, **attributes)  # type: ignore[arg-type]

    marker = build_batch(
        [Record(timestamp=0, key=control_key(ControlType.ABORT), value=bytes(6))], base_offset=2, producer_id=7,
        producer_epoch=0, transactional=True, control=True,
    )  # fmt: skip
    first = batch(0, b"plain") + batch(1, b"given up", base_sequence=0, **transaction)
    second = marker + batch(3, b"later", base_sequence=1, **transaction) + batch(4, b"torn")[:-3]
    (directory / f"{0:020}.log").write_bytes(first)
    (directory / f"{2:020}.log").write_bytes(second)
    aborted = b"".join(number.to_bytes(8, "big") for number in (7, 1, 2, 3))
    (directory / f"{2:020}.txnindex").write_bytes(bytes(2) + aborted)

    def read(isolation: str) -> list[bytes]:
        options = source_options({"path": str(tmp_path), "isolation.level": isolation}, streaming=False)
        found = find_segments(str(tmp_path), read_committed=options.read_committed)
        assert {segment.partition for segment in found} == {TopicPartition("orders", 2)}
        return [
            row["value"] for segment in found for made in read_segment(segment, options) for row in made.to_pylist()
        ]

    assert read("read_committed") == [b"plain", b"later"]
    assert read("read_uncommitted") == [b"plain", b"given up", b"later"]
    with pytest.raises(ValueError, match="where there is nothing"):
        find_segments(str(tmp_path / "nowhere"), read_committed=False)
