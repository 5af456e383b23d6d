"""From whole record batches to Arrow: thin path."""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from hightide.client.fetch import FetchedPartition, visible_batches
from hightide.spark.schema import arrow_schema
from hightide.wire.records import iterate_records


class Decoder:
    """Makes Arrow record batches of what one partition's fetches brought."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._schema = arrow_schema(columns)

    def decode(self, fetched: FetchedPartition, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The records from `start` up to `end` that a reader may see."""
        topic, partition = fetched.partition
        rows = []
        for position, header, visible in visible_batches(fetched):
            if visible:
                for record in iterate_records(fetched.records, position, header):
                    if start <= record.offset < end:
                        row = {
                            "key": record.key,
                            "value": record.value,
                            "topic": topic,
                            "partition": partition,
                            "offset": record.offset,
                            "timestamp": record.timestamp * 1000,
                            "timestampType": int(header.has_append_time),
                            "headers": [{"key": k, "value": v} for k, v in record.headers] or None,
                        }
                        rows.append(row)
        if rows:
            yield pa.RecordBatch.from_pylist([{n: r[n] for n in self._schema.names} for r in rows], self._schema)
