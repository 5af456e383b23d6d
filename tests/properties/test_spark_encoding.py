"""The compiled encoder against the plain reader and the plain partitioner."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.client.partitioner import partition_for_key
from hightide.spark.encoding import Encoder, PackedBatch, SinkError
from hightide.wire.batches import build_batch
from hightide.wire.records import HEADER_BYTES, Record, iterate_records, read_header

PARTITIONS = {"orders": 3, "payments": 1}
HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

contents = st.none() | st.binary(max_size=20) | st.just(b"v" * 300)
header_lists = st.none() | st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
row_lists = st.lists(
    st.fixed_dictionaries(
        {
            "key": contents,
            "value": contents,
            "topic": st.sampled_from(list(PARTITIONS)),
            "partition": st.none() | st.just(0),
            "headers": header_lists,
        }
    ),
    min_size=1,
    max_size=30,
)


def encoder(topic: str | None = None, *, batch_bytes: int = 1000, record_bytes_max: int = 10_000) -> Encoder:
    return Encoder(topic, PARTITIONS.__getitem__, batch_bytes=batch_bytes, record_bytes_max=record_bytes_max)


def arrow(rows: list[dict[str, Any]], text: bool = False) -> pa.RecordBatch:
    pairs = [
        [{"key": k, "value": v} for k, v in each] if (each := row["headers"]) is not None else None for row in rows
    ]
    return pa.record_batch(
        {
            "key": pa.array([row["key"] for row in rows], pa.binary()),
            "value": pa.array([row["value"] for row in rows], pa.binary()),
            "topic": pa.array([row["topic"] for row in rows], pa.string()),
            "partition": pa.array([row["partition"] for row in rows], pa.int32()),
            "headers": pa.array(pairs, HEADERS_TYPE),
        }
    )


def records_of(batch: PackedBatch) -> list[Record]:
    """What the plain reader makes of a packed batch under a header that says what is in it."""
    data = bytearray(build_batch([Record(timestamp=0)])[:HEADER_BYTES]) + batch.data[HEADER_BYTES:]
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[23:27] = (batch.record_count - 1).to_bytes(4, "big")
    data[57:61] = batch.record_count.to_bytes(4, "big")
    return list(iterate_records(data, 0, read_header(data)))


@pytest.mark.covers("S2")
@settings(max_examples=150, deadline=None)
@given(rows=row_lists, cut=st.integers(0, 5), batch_bytes=st.sampled_from([1, 100, 1000, 100_000]))
def test_every_row_is_a_record_of_its_partition_in_order(
    rows: list[dict[str, Any]], cut: int, batch_bytes: int
) -> None:
    sliced = arrow(rows)[cut:]  # Arrow arrays may begin in the middle of their buffers
    batches = list(encoder(batch_bytes=batch_bytes).encode(sliced))
    found: dict[tuple[str, int], list[tuple[Any, ...]]] = {}
    for batch in batches:
        records = records_of(batch)
        assert [record.offset for record in records] == list(range(len(records)))
        assert batch.record_count == 1 or len(batch.data) - HEADER_BYTES <= batch_bytes
        part = [(record.key, record.value, list(record.headers)) for record in records]
        found.setdefault(batch.partition, []).extend(part)
    for (topic, partition), records_found in found.items():
        expected = [
            (row["key"], row["value"], row["headers"] or [])
            for row in rows[cut:]
            if row["topic"] == topic and _partition(row, partition) == partition
        ]
        keyed = [record for record in expected if record[0] is not None]
        assert [record for record in records_found if record[0] is not None] == keyed
    everything = [record for each in found.values() for record in each]
    assert sorted(map(repr, everything)) == sorted(
        repr((row["key"], row["value"], row["headers"] or [])) for row in rows[cut:]
    )


def _partition(row: dict[str, Any], otherwise: int) -> int:
    if row["partition"] is not None:
        return int(row["partition"])
    return otherwise if row["key"] is None else partition_for_key(row["key"], PARTITIONS[row["topic"]])


@settings(max_examples=200, deadline=None)
@given(keys=st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_keys_go_where_the_java_client_sends_them(keys: list[bytes]) -> None:
    rows = pa.record_batch({"key": pa.array(keys, pa.binary()), "value": pa.array(keys, pa.binary())})
    for batch in encoder("orders").encode(rows):
        for record in records_of(batch):
            assert record.key is not None
            assert partition_for_key(record.key, 3) == batch.partition.partition


def test_records_without_a_key_stay_together_and_move_on() -> None:
    rows = pa.record_batch({"value": pa.array(["x" * 100] * 60)})  # text is written as UTF-8
    made = encoder("orders")
    batches = [(batch.partition.partition, batch.record_count) for batch in made.encode(rows)]
    assert {partition for partition, _ in batches} == {0, 1, 2}
    assert sum(count for _, count in batches) == 60
    assert max(count for _, count in batches) >= 9


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": ["orders", None]}, "contains a null topic"),
        ({"partition": [0, 7]}, "Invalid partition 7: topic orders has partitions 0 to 2"),
        ({"partition": [0, -1]}, "Invalid partition -1"),
        ({"value": ["small", "x" * 20_000]}, "larger than 10000, the value of the option 'kafka.max.request.size'"),
        ({"headers": [None, [{"key": None, "value": b"x"}]]}, "a header needs a name"),
    ],
)
def test_rows_that_can_not_be_written_are_named(columns: dict[str, list[Any]], message: str) -> None:
    types = {"topic": pa.string(), "partition": pa.int32(), "value": pa.string(), "headers": HEADERS_TYPE}
    given_columns: dict[str, list[Any]] = {"value": ["a", "b"]} | columns
    rows = pa.record_batch({name: pa.array(values, types[name]) for name, values in given_columns.items()})
    with pytest.raises(SinkError, match=message):
        list(encoder(None if "topic" in columns else "orders").encode(rows))
