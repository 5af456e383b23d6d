"""The stock JVM connector on hightide (S9): it reads and writes, batch and streaming, and both see the same rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hightide.client.partitioner import partition_for_key
from hightide.spark import read, read_stream, write
from hightide.wire.compression import Codec
from hightide.wire.records import Record
from tests.spark import stock_steps
from tests.spark.stock_steps import plain_row
from tests.spark.topics import Topics
from tools.stock_connector import StockConnector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.java, pytest.mark.long, pytest.mark.timeout(1800)]

RUN_SECONDS = 900.0
NOW = 1_700_000_000_000
MANY = [
    Record(
        timestamp=NOW + 7 * index,
        key=None if index % 3 == 0 else b"key %d" % (index % 50),
        value=None if index % 11 == 0 else b"\x00\xff value %d " % index * (index % 7),
        headers=[("trace", b"%d" % index), ("", None)] if index % 5 == 0 else [],
    )
    for index in range(400)
]


@pytest.fixture(scope="module")
def stock() -> StockConnector:
    return StockConnector()


def run(stock: StockConnector, steps: list[dict[str, Any]], directory: Path) -> list[Any]:
    """What each step brought over there: rows for reads, None for writes."""
    plan, results = directory / "steps.json", directory / "results.json"
    plan.write_text(json.dumps(steps))
    done = stock.run(Path(stock_steps.__file__), plan, results, directory=directory, timeout=RUN_SECONDS)
    assert done.returncode == 0, done.stderr[-4000:]
    return list(json.loads(results.read_text()))


def rows_to_write(topic: str) -> list[list[Any]]:
    return [
        [f"k{index}" if index % 4 else None, f"v{index}", [["h", "x"]] if index % 2 else None, topic]
        for index in range(60)
    ]


@pytest.mark.covers("S9", "S1", "S2")
def test_both_connectors_see_and_write_the_same_rows(
    spark: SparkSession, topics: Topics, topic: Callable[..., str], stock: StockConnector, tmp_path: Path
) -> None:
    name, theirs, theirs_streamed, ours = topic(5, configs={"retention.ms": "-1"}), topic(3), topic(3), topic(3)
    for partition, codec in enumerate(Codec):
        topics.send(name, MANY, partition=partition, codec=codec)
    frame = spark.createDataFrame(
        [
            (k and k.encode(), v.encode(), h and [(n, c.encode()) for n, c in h], t)
            for k, v, h, t in rows_to_write(ours)
        ],
        "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string",
    )
    write(frame, topics.bootstrap)

    def options(topic: str, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "includeHeaders": "true"} | more

    def directory(step: str) -> str:
        return str(tmp_path / step)

    by_time = f'{{"{name}":' + "{" + ",".join(f'"{p}":{NOW + 1400}' for p in range(5)) + "}}"
    target = {"kafka.bootstrap.servers": topics.bootstrap}
    whole, streamed, late, of_ours, _, _ = run(
        stock,
        [
            {"kind": "read", "options": options(name)},
            {
                "kind": "read_stream",
                "options": options(name, startingOffsets="earliest", maxOffsetsPerTrigger="900"),
                "directory": directory("stock-stream"),
            },
            {"kind": "read", "options": options(name, startingOffsetsByTimestamp=by_time)},
            {"kind": "read", "options": options(ours)},
            {"kind": "write", "options": target, "rows": rows_to_write(theirs)},
            {
                "kind": "write_stream",
                "options": target,
                "rows": rows_to_write(theirs_streamed),
                "directory": directory("stock-write"),
            },
        ],
        tmp_path,
    )

    def our_rows(topic: str, **more: str) -> list[Any]:
        found = read(spark, topics.bootstrap, topic, options={"includeHeaders": "true"} | more).collect()
        return sorted((plain_row(row) for row in found), key=_place)

    assert len(whole) == 5 * len(MANY)
    assert our_rows(name) == sorted(whole, key=_place)
    assert sorted(streamed, key=_place) == sorted(whole, key=_place)
    assert our_rows(name, startingOffsetsByTimestamp=by_time) == sorted(late, key=_place)
    assert len(late) == 5 * 200
    assert our_rows(ours) == sorted(of_ours, key=_place)

    checkpoint = {"checkpointLocation": directory("our-checkpoint"), "path": directory("our-stream")}
    ours_streamed = read_stream(
        spark,
        topics.bootstrap,
        name,
        starting="earliest",
        options={"includeHeaders": "true", "maxOffsetsPerTrigger": "900"},
    )
    query = ours_streamed.writeStream.format("parquet").options(**checkpoint).trigger(availableNow=True).start()
    assert query.awaitTermination(300)
    stream_rows = [plain_row(row) for row in spark.read.parquet(directory("our-stream")).collect()]
    assert sorted(stream_rows, key=_place) == sorted(whole, key=_place)

    # What either of them writes is in the same place with the same bytes.
    for written in (theirs, theirs_streamed, ours):
        records = topics.records(written)
        assert len(records) == 60
        assert all(record.partition == partition_for_key(record.key, 3) for record in records if record.key is not None)
        found = sorted((record.key or b"", record.value or b"", list(record.headers)) for record in records)
        assert found == sorted(
            ((k or "").encode(), v.encode(), [(n, c.encode()) for n, c in h or []])
            for k, v, h, _ in rows_to_write(written)
        )


def _place(row: list[Any]) -> tuple[int, int]:
    return row[3], row[4]
