"""Iceberg tables through pyiceberg and whatever catalog it is configured for.

Marks are properties of the table, set in the same commit as the files. Such a commit demands that the snapshot it was
made on is still the newest, so a job that lost touch and comes back can't add what its successor has added: pyiceberg's
own retries, which would put the files on top of any newer snapshot, are not used.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table as PyIcebergTable
from pyiceberg.table import TableProperties

from hightide.spark.tables import FILE_PREFIX, DataFile, Mark, Marks, TableConflictError, TableError, check_columns

if TYPE_CHECKING:
    import pyarrow as pa


class IcebergTable:
    """`tables.Table` as Iceberg: `where` is `namespace.table`; the properties are those of its catalog."""

    def __init__(self, where: str, properties: Mapping[str, str]) -> None:
        self.name = where
        self._namespace, _, short = where.rpartition(".")
        if not self._namespace or not short:
            raise TableError(f"{where!r} is no Iceberg table: write namespace.table")
        given = dict(properties)
        self._catalog: Catalog = load_catalog(given.pop("name", None), **given)
        self._table: PyIcebergTable | None = None

    @property
    def data_directory(self) -> str:
        """Below the table's location."""
        return f"{self._opened.location()}/data"

    @property
    def live_directory(self) -> str:
        """The same."""
        return self.data_directory

    @property
    def state_directory(self) -> str:
        """Below the table's location."""
        return f"{self._opened.location()}/_hightide"

    def prepare(self, schema: "pa.Schema") -> None:
        """Create or compare."""
        try:
            self._table = self._catalog.load_table(self.name)
        except NoSuchTableError:
            try:
                self._catalog.create_namespace(self._namespace)
            except NamespaceAlreadyExistsError:
                pass
            self._table = self._catalog.create_table(self.name, schema)
        found = [(field.name, str(field.type)) for field in self._table.schema().as_arrow()]
        check_columns(self.name, _spelled(found), _spelled([(field.name, str(field.type)) for field in schema]))

    def marks(self, wanted: Iterable[Mark]) -> Marks:
        """From the table's properties."""
        self._refresh()
        known = self._opened.properties
        return {mark: int(known[str(mark)]) for mark in wanted if str(mark) in known}

    def append(self, files: Sequence[DataFile], marks: Mapping[Mark, int], note: str) -> str:
        """One snapshot."""
        paths = [f"{self.data_directory}/{file.name}" for file in files]
        try:
            with self._opened.transaction() as transaction:
                transaction.set_properties({str(mark): str(offset) for mark, offset in marks.items()})
                # Our names never repeat; looking for repetitions would read all manifests each time.
                transaction.add_files(paths, {"hightide": note}, check_duplicate_files=False)
        except CommitFailedException as error:
            raise self._conflict(error) from error
        return self._version()

    def small_files(self, size_max: int) -> list[DataFile]:
        """From the manifests of the newest snapshot."""
        self._refresh()
        found = []
        for task in self._opened.scan().plan_files():
            if task.delete_files:
                raise TableError(f"{self.name} has delete files: its data files can't be merged as they are")
            name = task.file.file_path.rpartition("/")[2]
            if name.startswith(FILE_PREFIX) and task.file.file_size_in_bytes < size_max:
                found.append(DataFile(name, task.file.file_size_in_bytes, task.file.record_count, ""))
        return found

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> str:
        """One snapshot that changes no data."""
        table = self._opened
        names = {file.name for file in old}
        files = [task.file for task in table.scan().plan_files() if task.file.content is DataFileContent.DATA]
        removed = [file for file in files if file.file_path.rpartition("/")[2] in names]
        paths = iter([f"{self.data_directory}/{file.name}" for file in new])
        try:
            with (
                table.transaction() as transaction,
                transaction.update_snapshot({"hightide": "compaction"}).overwrite() as overwrite,
            ):
                for file in removed:
                    overwrite.delete_data_file(file)
                for file in parquet_files_to_data_files(table.io, table.metadata, paths):
                    overwrite.append_data_file(file)
        except CommitFailedException as error:
            raise self._conflict(error) from error
        return self._version()

    def _refresh(self) -> None:
        self._opened.refresh()
        # Of our copy only: what others write to the table is retried as they have configured it.
        self._opened.metadata.properties[TableProperties.COMMIT_NUM_RETRIES] = "0"

    def _version(self) -> str:
        self._refresh()
        snapshot = self._opened.current_snapshot()
        return "" if snapshot is None else str(snapshot.snapshot_id)

    def _conflict(self, error: Exception) -> TableConflictError:
        self._opened.refresh()
        return TableConflictError(f"{self.name} was changed by somebody else ({error}): is another job writing to it?")

    @property
    def _opened(self) -> PyIcebergTable:
        assert self._table is not None, "prepare() comes first"
        return self._table


def _spelled(columns: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Iceberg's Arrow types are the large ones; that is no difference to people."""
    return [(name, kind.replace("large_", "")) for name, kind in columns]
