"""Delta tables through the `deltalake` package, without a jar.

Marks are Delta's own application transactions (`txn` actions): the application is the partition, its version the next
offset. Two writers that move the same mark conflict, which deltalake checks, so a job that lost touch and comes back
can't add what its successor has added.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from hightide.spark.tables import FILE_PREFIX, DataFile, Mark, Marks, TableConflictError, TableError, check_columns

if TYPE_CHECKING:
    import pyarrow as pa

_PLAIN_READER_VERSION = 1  # no deletion vectors, no column mapping: a file's rows are the table's


class DeltaLakeTable:
    """`tables.Table` as Delta."""

    def __init__(self, where: str) -> None:
        self.name = where
        self.data_directory = where if "://" in where else str(Path(where).resolve())
        self.live_directory = self.data_directory
        self.state_directory = f"{self.data_directory}/_hightide"
        self._table: DeltaTable | None = None

    def prepare(self, schema: "pa.Schema") -> None:
        """Create or compare."""
        try:
            self._table = DeltaTable(self.data_directory)
        except TableNotFoundError:
            if "://" not in self.data_directory:
                Path(self.data_directory).mkdir(parents=True, exist_ok=True)
            self._table = DeltaTable.create(self.data_directory, schema)
        check_columns(self.name, _columns(self._table.schema()), _columns(Schema.from_arrow(schema)))

    def marks(self, wanted: Iterable[Mark]) -> Marks:
        """The versions of our applications."""
        self._opened.update_incremental()
        found = {mark: self._opened.transaction_version(str(mark)) for mark in wanted}
        return {mark: int(version) for mark, version in found.items() if version is not None}

    def append(self, files: Sequence[DataFile], marks: Mapping[Mark, int], note: str) -> str:
        """One version of the table."""
        transactions = [Transaction(str(mark), offset) for mark, offset in marks.items()]
        properties = CommitProperties(custom_metadata={"hightide": note}, app_transactions=transactions)
        return self._commit([_add(file, is_new=True) for file in files], properties)

    def small_files(self, size_max: int) -> list[DataFile]:
        """From the table's log."""
        self._opened.update_incremental()
        if self._opened.protocol().min_reader_version > _PLAIN_READER_VERSION:
            raise TableError(f"{self.name} uses features of Delta for which files can't be merged as they are")
        listed = self._opened.get_add_actions(flatten=True)
        paths, sizes, rows = (listed.column(name).to_pylist() for name in ("path", "size_bytes", "num_records"))
        found = [DataFile(unquote(path), size, count, "") for path, size, count in zip(paths, sizes, rows, strict=True)]
        return [file for file in found if file.name.startswith(FILE_PREFIX) and file.size < size_max]

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> str:
        """One version of the table that changes no data."""
        now = time.time_ns() // 1_000_000
        removed = [RemoveAction(file.name, False, now, file.size, {}) for file in old]
        properties = CommitProperties(custom_metadata={"hightide": "compaction"})
        return self._commit([*removed, *(_add(file, is_new=False) for file in new)], properties)

    def _commit(self, actions: list[AddAction | RemoveAction], properties: CommitProperties) -> str:
        table = self._opened
        try:
            table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
        except CommitFailedError as error:
            raise TableConflictError(
                f"{self.name} was changed by somebody else ({error}): is another job writing the same topics to it?"
            ) from error
        table.update_incremental()
        return str(table.version())

    @property
    def _opened(self) -> DeltaTable:
        assert self._table is not None, "prepare() comes first"
        return self._table


def _add(file: DataFile, *, is_new: bool) -> AddAction:
    return AddAction(file.name, file.size, {}, time.time_ns() // 1_000_000, is_new, file.stats)


def _columns(schema: Schema) -> list[tuple[str, str]]:
    return [(field.name, str(field.type)) for field in schema.fields]
