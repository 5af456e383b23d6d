"""Plain Parquet files in a directory, for readers that know nothing of tables; on a file system, local or mounted.

A directory has no commits, so one is kept beside the files, in `_hightide/commits`: each commit is a small file with
the names of the data files that it adds and removes and with all marks, created by a link, which succeeds once. Data
files wait in `_hightide/staged` and are moved into place after their commit is written; the moves of the last commit
are repeated when the job starts. A reader that looks while files move may see a part of one commit, never a record
twice, but for the moment in which compaction puts a merged file beside those it replaces.
"""

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hightide.spark.tables import FILE_PREFIX, DataFile, Mark, Marks, TableConflictError, TableError, check_columns

if TYPE_CHECKING:
    import pyarrow as pa

COMMITS_KEPT = 100


class ParquetTable:
    """`tables.Table` as files."""

    def __init__(self, where: str) -> None:
        if "://" in where:
            raise TableError(f"{where} is no directory: plain Parquet needs a file system; Delta and Iceberg do not")
        self.name = where
        self._directory = Path(where).resolve()
        self._state = self._directory / "_hightide"
        self._commits = self._state / "commits"
        self._staged = self._state / "staged"
        self.data_directory = str(self._staged)
        self.live_directory = str(self._directory)
        self.state_directory = str(self._state)
        self._version = -1
        self._content: dict[str, Any] = {"marks": {}, "columns": None}

    def prepare(self, schema: "pa.Schema") -> None:
        """Finish the last commit; what was staged without one is dropped."""
        self._commits.mkdir(parents=True, exist_ok=True)
        self._refresh()
        self._apply()
        shutil.rmtree(self._staged, ignore_errors=True)
        self._staged.mkdir()
        columns = [[field.name, str(field.type)] for field in schema]
        if self._content["columns"] is not None:
            wanted = [(name, kind) for name, kind in columns]
            check_columns(self.name, [(name, kind) for name, kind in self._content["columns"]], wanted)
        self._content["columns"] = columns

    def marks(self, wanted: Iterable[Mark]) -> Marks:
        """From the last commit."""
        self._refresh()
        known = self._content["marks"]
        return {mark: known[str(mark)] for mark in wanted if str(mark) in known}

    def append(self, files: Sequence[DataFile], marks: Mapping[Mark, int], note: str) -> str:
        """A commit, then the moves."""
        moved = {**self._content["marks"], **{str(mark): offset for mark, offset in marks.items()}}
        return self._commit({"note": note, "marks": moved, "add": [file.name for file in files], "remove": []})

    def small_files(self, size_max: int) -> list[DataFile]:
        """From the directory."""
        found = [
            DataFile(str(path.relative_to(self._directory)), path.stat().st_size, 0, "")
            for path in sorted(self._directory.glob(f"{FILE_PREFIX}*.parquet"))
        ]
        return [file for file in found if file.size < size_max]

    def replace(self, old: Sequence[DataFile], new: Sequence[DataFile]) -> str:
        """A commit, then the moves."""
        added, removed = [file.name for file in new], [file.name for file in old]
        return self._commit({"note": "compaction", "marks": self._content["marks"], "add": added, "remove": removed})

    def _commit(self, content: dict[str, Any]) -> str:
        content["columns"] = self._content["columns"]
        version = self._version + 1
        partial = self._state / f"commit.{os.getpid()}"
        with partial.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, self._path(version))
        except FileExistsError:
            raise TableConflictError(
                f"{self.name} was changed by somebody else: only one job can write a directory of plain Parquet files"
            ) from None
        finally:
            partial.unlink()
        self._version, self._content = version, content
        self._apply()
        self._path(version - COMMITS_KEPT).unlink(missing_ok=True)
        return str(version)

    def _refresh(self) -> None:
        versions = [int(path.stem) for path in self._commits.glob("*.json")]
        if versions and max(versions) != self._version:
            self._version = max(versions)
            self._content = json.loads(self._path(self._version).read_text("utf-8"))

    def _apply(self) -> None:
        """Move what the last commit adds into place and drop what it removes; again, if need be."""
        for name in self._content.get("add", ()):
            staged = self._staged / name
            if staged.exists():
                staged.replace(self._directory / name)
        for name in self._content.get("remove", ()):
            (self._directory / name).unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self._commits / f"{version:020d}.json"
