"""From whole record batches, as brokers keep them, to Arrow record batches, as Spark takes them.

Batches are opened in Python (CRC, codec, whether a reader may see them), records by the compiled scan, and fields are
copied by Arrow: an array over the raw bytes, whose every second element is a field, and `take`.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from hightide.client.fetch import FetchedPartition, visible_batches
from hightide.errors import ProtocolError
from hightide.limits import BATCH_RECORDS_MAX, MIB
from hightide.spark import scanning
from hightide.spark.schema import HEADERS, arrow_schema
from hightide.types import TopicPartition
from hightide.wire.compression import Codec
from hightide.wire.records import HEADER_BYTES, INT64_MAX, RECORD_BYTES_MIN, BatchHeader, records_of

if TYPE_CHECKING:
    from hightide.spark.scanning import Array
    from hightide.wire.records import Buffer

PORTION_BYTES = 32 * MIB  # of records to one Arrow batch: far below the 2 GiB that its offsets can count
_MICROSECONDS = 1000


class _Portion:
    """Batches that become one Arrow batch: where their records are in one buffer."""

    def __init__(self, data: "Buffer | None") -> None:
        self.headers: list[BatchHeader] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.size = 0
        self._shared = data  # all batches are uncompressed: the buffer that they came in
        self._opened: list[Buffer] = []

    def add(self, header: BatchHeader, start: int, records: "Buffer") -> None:
        """One more batch, whose records are these bytes, at `start` in the shared buffer."""
        if self._shared is None:
            start = self.size
            self._opened.append(records)
        self.headers.append(header)
        self.starts.append(start)
        self.ends.append(start + len(records))
        self.size += len(records)

    @property
    def data(self) -> "Buffer":
        """The buffer that starts and ends are positions of."""
        if self._shared is not None:
            return self._shared
        return self._opened[0] if len(self._opened) == 1 else b"".join(self._opened)


class Decoder:
    """Makes Arrow record batches of what the fetches of one partition brought."""

    def __init__(self, columns: Sequence[str], where: TopicPartition) -> None:
        self._columns = tuple(columns)
        self._schema = arrow_schema(columns)
        self._where = where
        self._constant: dict[str, pa.Array] = {}
        self._even = pa.array([], pa.int32())

    def decode(self, fetched: FetchedPartition, first: int, until: int) -> Iterator[pa.RecordBatch]:
        """The records with offsets in [first, until) that a reader may see; ProtocolError or ApiError if any is bad."""
        for portion in self._portions(fetched, first, until):
            batch = self._records(portion, first, until)
            if batch.num_rows:
                yield batch

    def _portions(self, fetched: FetchedPartition, first: int, until: int) -> Iterator[_Portion]:
        """Whole batches in portions; compressed ones are opened here."""
        data = fetched.records
        wanted = []
        for position, header, visible in visible_batches(fetched):
            self._check(header)  # first: a batch that lies about its end might look like one that is not wanted
            if visible and header.next_offset > first and header.base_offset < until:
                wanted.append((position, header))
        shared = data if all(header.codec is Codec.NONE for _, header in wanted) else None
        portion = _Portion(shared)
        for position, header in wanted:
            if shared is None:
                portion.add(header, 0, records_of(data, position, header))
            else:
                portion.add(
                    header, position + HEADER_BYTES, memoryview(data)[position + HEADER_BYTES : position + header.size]
                )
            if portion.size >= PORTION_BYTES:
                yield portion
                portion = _Portion(shared)
        if portion.headers:
            yield portion

    def _check(self, header: BatchHeader) -> None:
        offset, delta, count = header.base_offset, header.last_offset_delta, header.record_count
        if delta < 0 or offset > INT64_MAX - delta or not 0 <= count <= BATCH_RECORDS_MAX:
            raise self._bad(offset, f"{count} records up to offset {offset} + {delta}")

    def _bad(self, offset: int, what: str) -> ProtocolError:
        return ProtocolError(f"partition {self._where}, batch at offset {offset}: {what}")

    def _records(self, portion: _Portion, first: int, until: int) -> pa.RecordBatch:
        headers = portion.headers
        for header, start, end in zip(headers, portion.starts, portion.ends, strict=True):
            if header.record_count * RECORD_BYTES_MIN > end - start:
                raise self._bad(header.base_offset, f"{header.record_count} records in {end - start} bytes")
        count = sum(header.record_count for header in headers)
        data = portion.data
        found = _Found(count)
        wrong, which, rows = scanning.scan_records(
            np.frombuffer(data, np.uint8),
            np.array(portion.starts, np.int64),
            np.array(portion.ends, np.int64),
            np.array([header.record_count for header in headers], np.int64),
            np.array([header.base_offset for header in headers], np.int64),
            np.array([header.last_offset_delta for header in headers], np.int64),
            np.array([header.base_timestamp for header in headers], np.int64),
            np.array([header.max_timestamp for header in headers], np.int64),
            np.array([header.has_append_time for header in headers], np.bool_),
            first,
            until,
            *found.arrays,
        )
        if wrong != scanning.OK:
            raise self._bad(headers[which].base_offset, scanning.WRONG[wrong])
        return self._arrow(data, found, rows)

    def _arrow(self, data: "Buffer", found: "_Found", rows: int) -> pa.RecordBatch:
        if rows == 0:
            return pa.RecordBatch.from_pylist([], self._schema)
        raw = pa.py_buffer(data)
        made: list[pa.Array] = []
        for name in self._columns:
            if name == "key":
                made.append(self._fields(raw, found.key_spans, found.key_nulls, rows))
            elif name == "value":
                made.append(self._fields(raw, found.value_spans, found.value_nulls, rows))
            elif name == "offset":
                made.append(pa.array(found.offsets[:rows]))
            elif name == "timestamp":
                made.append(self._timestamps(found, rows))
            elif name == "timestampType":
                made.append(pa.array(found.timestamp_types[:rows]))
            elif name == HEADERS:
                made.append(self._headers(data, raw, found, rows))
            else:
                made.append(self._repeated(name, rows))
        return pa.RecordBatch.from_arrays(made, schema=self._schema)

    def _fields(self, raw: Any, spans: "Array", nulls: "Array", rows: int) -> pa.Array:
        """Every second element of an array over the raw bytes: the others are what lies between the fields."""
        if nulls[:rows].all():
            return pa.nulls(rows, pa.binary())
        everything = pa.Array.from_buffers(pa.binary(), 2 * rows - 1, [None, pa.py_buffer(spans[: 2 * rows]), raw])
        return everything.take(self._every_second(nulls[:rows], rows))

    def _every_second(self, nulls: "Array", rows: int) -> pa.Array:
        if nulls.any():
            return pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32), mask=nulls)
        if len(self._even) < rows:
            self._even = pa.array(np.arange(0, 2 * rows, 2, dtype=np.int32))
        return self._even[:rows]

    def _timestamps(self, found: "_Found", rows: int) -> pa.Array:
        milliseconds = found.timestamps[:rows]
        if milliseconds.max() > INT64_MAX // _MICROSECONDS or milliseconds.min() < -(INT64_MAX // _MICROSECONDS):
            what = "a timestamp too large for microseconds; leave the column out with the option 'columns'"
            raise self._bad(int(found.offsets[0]), what)
        return pa.array(milliseconds * _MICROSECONDS).view(pa.timestamp("us", tz="UTC"))

    def _repeated(self, name: str, rows: int) -> pa.Array:
        """The topic or the partition, the same in every row: made once for the largest batch, then sliced."""
        known = self._constant.get(name)
        if known is None or len(known) < rows:
            scalar = pa.scalar(self._where.topic) if name == "topic" else pa.scalar(self._where.partition, pa.int32())
            known = self._constant[name] = pa.repeat(scalar, rows)
        return known[:rows]

    def _headers(self, data: "Buffer", raw: Any, found: "_Found", rows: int) -> pa.Array:
        """Lists of name and value; null where a record has none, as in the stock connector."""
        counts = found.header_counts[:rows]
        total = int(counts.sum())
        if total == 0:
            return pa.nulls(rows, self._schema.field(HEADERS).type)
        names, values = np.empty(2 * total, np.int32), np.empty(2 * total, np.int32)
        nulls = np.empty(total, np.bool_)
        scanning.scan_headers(
            np.frombuffer(data, np.uint8), found.header_positions[:rows], counts, names, values, nulls
        )
        every = _text(self._fields(raw, names, np.zeros(total, np.bool_), total))
        pairs = pa.StructArray.from_arrays(
            [every, self._fields(raw, values, nulls, total)], fields=list(self._schema.field(HEADERS).type.value_type)
        )
        edges = np.zeros(rows + 1, np.int32)
        np.cumsum(counts, out=edges[1:])
        return pa.ListArray.from_arrays(
            pa.array(edges), pairs, type=self._schema.field(HEADERS).type, mask=pa.array(counts == 0)
        )


class _Found:
    """The arrays that a scan fills."""

    def __init__(self, count: int) -> None:
        self.offsets = np.empty(count, np.int64)
        self.timestamps = np.empty(count, np.int64)
        self.timestamp_types = np.empty(count, np.int32)
        self.key_spans = np.empty(2 * count, np.int32)
        self.key_nulls = np.empty(count, np.bool_)
        self.value_spans = np.empty(2 * count, np.int32)
        self.value_nulls = np.empty(count, np.bool_)
        self.header_positions = np.empty(count, np.int64)
        self.header_counts = np.empty(count, np.int32)

    @property
    def arrays(self) -> "list[Array]":
        """In the order that the scan takes them."""
        return [
            self.offsets, self.timestamps, self.timestamp_types, self.key_spans, self.key_nulls, self.value_spans,
            self.value_nulls, self.header_positions, self.header_counts,
        ]  # fmt: skip


def _text(names: pa.Array) -> pa.Array:
    """Names of headers are UTF-8; what is not is read as Java reads it."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.to_pylist()], pa.string())
