"""Data files of lakehouse tables, written and merged by executors; the driver hears of their names, sizes and ranges.

Every attempt of a task writes under a name of its own, so a repeated or a lost one leaves at worst a file that no
commit names.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from hightide.spark.lake_columns import PlaceColumns
from hightide.spark.tables import FILE_PREFIX, DataFile

if TYPE_CHECKING:
    from datetime import datetime

ROW_GROUP_ROWS = 256 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024  # uncompressed: what a reader takes at a time, and a task holds in memory
CODEC = "zstd"

WRITTEN_COLUMNS = (
    "name string, size bigint, rows bigint, stats string, "
    "ranges array<struct<topic: string, partition: int, end: bigint>>"
)
_RANGE = pa.struct([("topic", pa.string()), ("partition", pa.int32()), ("end", pa.int64())])
_WRITTEN = pa.schema(
    [
        ("name", pa.string()),
        ("size", pa.int64()),
        ("rows", pa.int64()),
        ("stats", pa.string()),
        ("ranges", pa.list_(pa.field("element", _RANGE))),
    ]
)


class Target(NamedTuple):
    """Where files go, and when the next one begins. Travels to the executors."""

    directory: str
    label: str
    file_bytes: int
    columns: PlaceColumns | None


def write_files(batches: "Iterable[pa.RecordBatch]", target: Target) -> "Iterator[pa.RecordBatch]":
    """Write rows to as many files as they need; a row about each file."""
    with ExitStack() as cleaning:
        file: _OpenFile | None = None
        for batch in batches:
            if not batch.num_rows:
                continue
            if file is None:
                file = _OpenFile(target, batch.schema)
                cleaning.callback(file.abandon)
            file.add(batch)
            if file.size >= target.file_bytes:
                yield file.finish()
                file = None
        if file is not None:
            yield file.finish()


def merge_files(directory: str, names: Sequence[str], target: Target) -> "Iterator[pa.RecordBatch]":
    """Write the rows of some files to as few as they need; a row about each."""
    system, base = locate(directory)
    schema = pq.read_schema(f"{base}/{names[0]}", filesystem=system)

    def rows() -> "Iterator[pa.RecordBatch]":
        for name in names:
            with system.open_input_file(f"{base}/{name}") as source:
                for batch in pq.ParquetFile(source).iter_batches(ROW_GROUP_ROWS):
                    yield pa.RecordBatch.from_arrays([batch.column(field.name) for field in schema], schema=schema)

    return write_files(rows(), target)


def bins_of(files: Sequence[DataFile], size: int) -> list[list[DataFile]]:
    """Which files to merge: in their order, about `size` together; what stays alone is left as it is."""
    bins: list[list[DataFile]] = []
    room = 0
    for file in sorted(files):
        if file.size > room:
            bins.append([])
            room = size
        bins[-1].append(file)
        room -= file.size
    return [each for each in bins if len(each) > 1]


def locate(where: str) -> tuple[Any, str]:
    """The file system of a path or URI, and the path in it."""
    if "://" in where:
        system, path = fs.FileSystem.from_uri(where)
        return system, path
    return fs.LocalFileSystem(), where


class _OpenFile:
    """One Parquet file on its way."""

    def __init__(self, target: Target, schema: "pa.Schema") -> None:
        self._system, directory = locate(target.directory)
        self._system.create_dir(directory, recursive=True)
        self._name = f"{FILE_PREFIX}{target.label}-{secrets.token_hex(8)}.parquet"
        self._path = f"{directory}/{self._name}"
        self._columns = target.columns
        self._schema = schema
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0
        self._ends: dict[tuple[str, int], int] = {}
        self._footers: list[Any] = []
        self._is_finished = False
        self._sink = self._system.open_output_stream(self._path)
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression=CODEC, metadata_collector=self._footers, coerce_timestamps="us"
        )

    @property
    def size(self) -> int:
        """Bytes on disk, and what waits for it, as if it did not shrink."""
        return int(self._sink.tell()) + self._waiting_bytes

    def add(self, batch: "pa.RecordBatch") -> None:
        """More rows."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        self._rows += batch.num_rows
        if self._columns is not None:
            self._note_ends(batch, self._columns)
        if self._waiting_rows >= ROW_GROUP_ROWS or self._waiting_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def finish(self) -> "pa.RecordBatch":
        """Close it and tell about it."""
        self._flush()
        self._writer.close()
        self._sink.close()
        self._is_finished = True
        size = self._system.get_file_info(self._path).size
        ranges = [{"topic": topic, "partition": part, "end": end} for (topic, part), end in self._ends.items()]
        stats = stats_of(self._footers[0])
        row = {"name": self._name, "size": size, "rows": self._rows, "stats": stats, "ranges": ranges}
        return pa.RecordBatch.from_pylist([row], schema=_WRITTEN)

    def abandon(self) -> None:
        """The task failed: leave nothing, if that can be."""
        if not self._is_finished:
            with suppress(OSError, pa.ArrowException):
                self._writer.close()
            with suppress(OSError):
                self._sink.close()
                self._system.delete_file(self._path)

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema), self._waiting_rows)
            self._waiting.clear()
            self._waiting_rows = self._waiting_bytes = 0

    def _note_ends(self, batch: "pa.RecordBatch", columns: PlaceColumns) -> None:
        places = pa.Table.from_batches([batch.select(list(columns))]).rename_columns(["topic", "partition", "offset"])
        last = places.group_by(["topic", "partition"], use_threads=False).aggregate([("offset", "max")])
        for row in last.to_pylist():
            key = (row["topic"], row["partition"])
            self._ends[key] = max(self._ends.get(key, 0), row["offset_max"] + 1)


def stats_of(footer: Any) -> str:
    """Delta's statistics: the number of rows, and bounds of numbers and times, from the Parquet footer."""
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    uncounted: set[str] = set()
    unbounded: set[str] = set()
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            name, found = column.path_in_schema, column.statistics
            if "." in name or found is None or not found.has_null_count:
                uncounted.add(name)
                continue
            nulls[name] = nulls.get(name, 0) + found.null_count
            if not found.has_min_max or not _is_bounded(found.min):
                if found.null_count < column.num_values:
                    unbounded.add(name)
                continue
            lowest[name] = min(lowest.get(name, found.min), found.min)
            highest[name] = max(highest.get(name, found.max), found.max)
    return json.dumps(
        {
            "numRecords": footer.num_rows,
            "minValues": _spelled(lowest, uncounted | unbounded),
            "maxValues": _spelled(highest, uncounted | unbounded),
            "nullCount": {name: count for name, count in nulls.items() if name not in uncounted},
        }
    )


def _is_bounded(value: object) -> bool:
    """Whether a bound of this type is kept: of numbers and times; floats have NaN and texts have no end."""
    return (isinstance(value, int) and not isinstance(value, bool)) or hasattr(value, "isoformat")


def _spelled(bounds: Mapping[str, Any], unknown: set[str]) -> dict[str, Any]:
    return {name: _text(value) for name, value in bounds.items() if name not in unknown}


def _text(value: "int | datetime") -> int | str:
    return value if isinstance(value, int) else value.isoformat().replace("+00:00", "Z")
