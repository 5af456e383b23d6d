"""From Arrow columns to record batches per partition; no record becomes a Python object.

What an encoder needs to know about topics (how many partitions) it is told by its caller; what a batch needs to be sent
(producer, sequence) is stamped by the sender, which also compresses it.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hightide.spark import packing
from hightide.spark.schema import HEADERS
from hightide.types import TopicPartition
from hightide.wire.records import HEADER_BYTES

Array = np.ndarray[Any, Any]


class SinkError(ValueError):
    """Rows that can't be written; the message says what to do."""


class PackedBatch(NamedTuple):
    """The records of a batch behind room for its header."""

    partition: TopicPartition
    data: bytearray
    record_count: int


class _Bytes(NamedTuple):
    """A column of bytes as the kernels take it."""

    data: Array
    offsets: Array
    there: Array


class Encoder:
    """Encodes the rows of one task. `topic` is the option; without it every row names its own."""

    def __init__(
        self,
        topic: str | None,
        partition_count: Callable[[str], int],
        *,
        batch_bytes: int,
        record_bytes_max: int,
        sticky_start: int = 0,
    ) -> None:
        self._topic = topic
        self._partition_count = partition_count
        self._batch_bytes = batch_bytes
        self._record_bytes_max = record_bytes_max
        self._sticky_start = sticky_start
        self._sticky: dict[str, tuple[int, int]] = {}  # where records without a key go, and how many bytes went there

    def encode(self, rows: pa.RecordBatch) -> Iterator[PackedBatch]:
        """The batches of some rows, in the order of the rows within each partition; SinkError names what is wrong."""
        if rows.num_rows == 0:
            return
        columns = {name: rows.column(name) for name in rows.schema.names}
        topics, names = self._topics(columns, rows.num_rows)
        key, value = _bytes_of(columns.get("key"), rows.num_rows), _bytes_of(columns["value"], rows.num_rows)
        edges, header_name, header_value = _headers_of(columns.get(HEADERS), rows.num_rows)
        lengths = np.empty(rows.num_rows, np.int64)
        packing.measure(
            key.offsets, key.there, value.offsets, value.there, edges, header_name.offsets, header_value.offsets,
            header_value.there, lengths,
        )  # fmt: skip
        self._check_sizes(lengths)
        where, order, spans = self._targets(columns.get("partition"), topics, names, key, lengths)
        for target, partition in enumerate(where):
            first, last = int(spans[target]), int(spans[target + 1])
            while first < last:
                count, size = packing.plan_batch(order, first, last, lengths, self._batch_bytes)
                data = bytearray(HEADER_BYTES + size)
                end = packing.pack_batch(
                    np.frombuffer(data, np.uint8), HEADER_BYTES, order, first, count, lengths,
                    *key, *value, edges, header_name.data, header_name.offsets, *header_value,
                )  # fmt: skip
                assert end == len(data)
                yield PackedBatch(partition, data, count)
                first += count

    def _topics(self, columns: Mapping[str, pa.Array], count: int) -> tuple[Array, list[str]]:
        """The topic of every row as an index into names."""
        if self._topic is not None:
            return np.zeros(count, np.int32), [self._topic]
        column = columns["topic"]
        if column.null_count:
            raise SinkError(
                "The Kafka message data sent to the producer contains a null topic. "
                "Use the `topic` option for setting a default topic."
            )
        encoded = column.dictionary_encode()
        return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int32), encoded.dictionary.to_pylist()

    def _targets(
        self, wanted: pa.Array | None, topics: Array, names: list[str], key: _Bytes, lengths: Array
    ) -> tuple[list[TopicPartition], Array, Array]:
        counts = [self._partition_count(name) for name in names]
        where = [
            TopicPartition(name, number) for name, count in zip(names, counts, strict=True) for number in range(count)
        ]
        asked, asks = _partitions_of(wanted, len(lengths))
        state = [self._sticky.get(name, (self._sticky_start, 0)) for name in names]
        sticky, put_bytes = np.array([each[0] for each in state]), np.array([each[1] for each in state])
        targets, order = np.empty(len(lengths), np.int32), np.empty(len(lengths), np.int64)
        bad = packing.choose_targets(
            topics, np.cumsum([0, *counts[:-1]]).astype(np.int32), np.array(counts, np.int32), asked, asks,
            *key, lengths, sticky, put_bytes, self._batch_bytes, targets,
        )  # fmt: skip
        if bad >= 0:
            name, count = names[topics[bad]], counts[topics[bad]]
            raise SinkError(f"Invalid partition {asked[bad]}: topic {name} has partitions 0 to {count - 1}")
        self._sticky.update(zip(names, zip(sticky.tolist(), put_bytes.tolist(), strict=True), strict=True))
        edges = np.empty(len(where) + 1, np.int64)
        packing.order_by_target(targets, order, edges)
        return where, order, edges

    def _check_sizes(self, lengths: Array) -> None:
        largest = int(lengths.max()) + HEADER_BYTES
        if largest > self._record_bytes_max:
            raise SinkError(
                f"The message is {largest} bytes when serialized which is larger than {self._record_bytes_max}, the "
                "value of the option 'kafka.max.request.size': raise it, and the topic's max.message.bytes with it"
            )


def _bytes_of(column: pa.Array | None, count: int) -> _Bytes:
    """Offsets, presence and bytes of a column of text or bytes; one that is missing has nothing anywhere."""
    if column is None or column.null_count == count:
        return _Bytes(np.zeros(0, np.uint8), np.zeros(count + 1, np.int32), np.zeros(count, np.bool_))
    if not (pa.types.is_binary(column.type) or pa.types.is_string(column.type)):
        column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    return _Bytes(
        np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8),
        np.frombuffer(offsets, np.int32, count + 1, 4 * column.offset),
        np.ones(count, np.bool_) if column.null_count == 0 else column.is_valid().to_numpy(zero_copy_only=False),
    )


def _headers_of(column: pa.Array | None, count: int) -> tuple[Array, _Bytes, _Bytes]:
    """Where the headers of each row begin, their names and their values; a null list is an empty one."""
    if column is None or column.null_count == count:
        return np.zeros(count + 1, np.int32), _bytes_of(None, 0), _bytes_of(None, 0)
    lists = column.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])))
    pairs = lists.flatten()  # of the rows that are there, without what a slice leaves out
    if pairs.null_count or pairs.field("key").null_count:
        raise SinkError("a header needs a name: the column 'headers' has one without a key")
    sizes = lists.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    edges = np.zeros(count + 1, np.int32)
    np.cumsum(sizes, out=edges[1:])
    names, values = pairs.flatten()
    return edges, _bytes_of(names, len(pairs)), _bytes_of(values, len(pairs))


def _partitions_of(column: pa.Array | None, count: int) -> tuple[Array, Array]:
    """The partition of each row, and whether it asks for one."""
    if column is None or column.null_count == count:
        return np.zeros(count, np.int32), np.zeros(count, np.bool_)
    given = column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int32)
    return given, column.is_valid().to_numpy(zero_copy_only=False)
