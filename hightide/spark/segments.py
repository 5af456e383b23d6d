"""Segment files without a broker: an archive, or the data of a broker that is gone, as a DataFrame.

`path` is a segment (`…/orders-0/00000000000000000000.log`), a partition's directory, or any directory above such. Topic
and partition are the name of the directory that a segment lies in. Every task reads one segment.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hightide.client.fetch import Aborted, FetchedPartition
from hightide.errors import ErrorCode, ProtocolError
from hightide.limits import MIB
from hightide.spark.decoding import Decoder
from hightide.spark.options import SourceOptions
from hightide.storage.partition_directories import parse_name
from hightide.storage.transaction_index import TransactionIndex
from hightide.types import TopicPartition
from hightide.wire.records import HEADER_BYTES, INT64_MAX, iterate_headers, read_header

if TYPE_CHECKING:
    import pyarrow as pa

READ_BYTES = 8 * MIB
_SUFFIX = ".log"


class Segment(NamedTuple):
    """One file, and the transactions with offsets in it that were given up."""

    path: str
    partition: TopicPartition
    aborted: tuple[tuple[int, int, int], ...]  # producer id, first offset, offset of the marker


def find_segments(path: str, *, read_committed: bool) -> list[Segment]:
    """Every segment at or below a path; ValueError when there is none."""
    top = Path(path)
    if not top.exists():
        raise ValueError(f"Option 'path' is '{path}', where there is nothing")
    files = [top] if top.is_file() else sorted(top.rglob(f"*{_SUFFIX}"))
    found = []
    for file in files:
        partition = parse_name(file.parent.name)
        if partition is not None and file.suffix == _SUFFIX and file.stem.isdigit():
            aborted = _aborted(file.parent) if read_committed else ()
            found.append(Segment(str(file), partition, aborted))
    if not found:
        raise ValueError(
            f"Option 'path' is '{path}', where no segment is: they are files topic-0/00000000000000000000.log"
        )
    return found


def _aborted(directory: Path) -> tuple[tuple[int, int, int], ...]:
    """From all indexes of a partition: the marker of a transaction may be segments behind its records."""
    return tuple(
        (entry.producer_id, entry.first_offset, entry.last_offset)
        for index in sorted(directory.glob("*.txnindex"))
        for entry in TransactionIndex.decode(index.read_bytes()).entries
    )


def read_segment(segment: Segment, options: SourceOptions) -> "Iterator[pa.RecordBatch]":
    """Every record of a segment; a batch cut short at its end was never acknowledged and is left out."""
    decoder = Decoder(options.columns, segment.partition)
    for data in _whole_batches(segment.path):
        try:
            first = read_header(data).base_offset
            aborted = [Aborted(start, producer) for producer, start, marker in segment.aborted if marker >= first]
            fetched = FetchedPartition(segment.partition, ErrorCode.NONE, -1, -1, -1, data, sorted(aborted))
            yield from decoder.decode(fetched, 0, INT64_MAX)
        except ProtocolError as error:
            raise ProtocolError(f"{segment.path}: {error}") from error


def _whole_batches(path: str) -> Iterator[bytes]:
    """The file in portions that end between batches; a batch larger than a portion is read whole."""
    rest, wanted = b"", READ_BYTES
    with open(path, "rb") as file:
        while True:
            read = file.read(wanted - len(rest))
            if not read:
                return
            data = rest + read
            end = 0
            for position, header in iterate_headers(data):
                end = position + header.size
            if end:
                yield data[:end]
            rest = data[end:]
            wanted = READ_BYTES
            if len(rest) >= HEADER_BYTES:
                wanted = max(READ_BYTES, read_header(rest).size)
