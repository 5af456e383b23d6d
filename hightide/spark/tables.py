"""Lakehouse tables as the lake job sees them: data files and the next offset of every partition, in one atomic commit.

Law: rows and the marks that say which records they are become visible together or not at all. So the table itself knows
what it holds, a record is never added twice, and Spark's checkpoint is a convenience that may be lost.
The marks carry the topic's id: a topic that was deleted and made again begins anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from hightide.types import format_uuid

if TYPE_CHECKING:
    import pyarrow as pa

FILE_PREFIX = "hightide-"  # of every data file: only those are ever compacted


class TableFormat(StrEnum):
    """What a table is kept as."""

    DELTA = "delta"
    ICEBERG = "iceberg"
    PARQUET = "parquet"


class TableError(RuntimeError):
    """Something about the table, in a sentence that says what to do."""


class TableConflictError(TableError):
    """Somebody else changed the table meanwhile, in a way that this commit can't follow."""


class Mark(NamedTuple):
    """The name of a mark: a partition of one life of a topic."""

    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return f"hightide/{format_uuid(self.topic_id)}/{self.partition}"


Marks = dict[Mark, int]
"""The next offset of partitions: everything below is in the table."""


class DataFile(NamedTuple):
    """A Parquet file, by its name below the table's data directory, with Delta's statistics as JSON."""

    name: str
    size: int
    rows: int
    stats: str


class Table(Protocol):
    """One table, opened by the driver."""

    @property
    def name(self) -> str:
        """How people know it."""

    @property
    def data_directory(self) -> str:
        """Where executors put new data files: a path or a URI."""

    @property
    def live_directory(self) -> str:
        """Where committed data files are."""

    @property
    def state_directory(self) -> str:
        """Where the job may keep its checkpoint: a place that readers of the table don't look at."""

    def prepare(self, schema: "pa.Schema") -> None:
        """Create the table, or make sure that it has these columns; finish what a crash left half done."""

    def marks(self, wanted: Iterable[Mark]) -> Marks:
        """The marks of these partitions as of now; what has none is left out."""

    def append(self, files: Sequence[DataFile], marks: Mapping[Mark, int], note: str) -> str:
        """Add files and move marks, atomically; answers the new version. TableConflictError when somebody else did."""

    def small_files(self, size_max: int) -> list[DataFile]:
        """Our own files below this size; TableError when they may not be rewritten."""

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> str:
        """The same rows in other files, atomically."""


def open_table(form: TableFormat | str, where: str, *, catalog: Mapping[str, str] | None = None) -> Table:
    """A table by its path (Delta, Parquet) or by its name in a catalog (Iceberg)."""
    form = TableFormat(form)
    if catalog and form is not TableFormat.ICEBERG:
        raise TableError(f"a {form} table has no catalog: it is known by its path")
    if form is TableFormat.DELTA:
        from hightide.spark.tables_delta import DeltaLakeTable

        return DeltaLakeTable(where)
    if form is TableFormat.ICEBERG:
        from hightide.spark.tables_iceberg import IcebergTable

        return IcebergTable(where, dict(catalog or {}))
    from hightide.spark.tables_parquet import ParquetTable

    return ParquetTable(where)


def check_columns(name: str, found: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str]]) -> None:
    """The columns of an existing table must be those that the job writes, in their order or not."""
    if sorted(found) == sorted(wanted):
        return
    spelled = [", ".join(f"{column} {kind}" for column, kind in columns) for columns in (found, wanted)]
    raise TableError(
        f"{name} has the columns ({spelled[0]}), and the job would write ({spelled[1]}): "
        "name another table, or give the job the format and the schema that the table was made with"
    )
