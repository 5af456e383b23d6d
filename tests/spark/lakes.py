"""Tables of every format for tests, read as somebody else would read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hightide.spark.tables import TableFormat


class Lake:
    """A table of one format, and how others read it."""

    def __init__(self, form: TableFormat, directory: Path) -> None:
        self.form = form
        self.directory = directory
        directory.mkdir()
        self.catalog: dict[str, str] = {}
        self.where = str(directory / "orders")
        if form is TableFormat.ICEBERG:
            self.where = "lake.orders"
            self.catalog = {
                "type": "sql",
                "uri": f"sqlite:///{directory}/catalog.db",
                "warehouse": f"file://{directory}",
            }

    @property
    def options(self) -> dict[str, Any]:
        return {"format": self.form, "catalog": self.catalog or None}

    def rows(self) -> list[dict[str, Any]]:
        """As a reader that has never heard of hightide sees it."""
        if self.form is TableFormat.DELTA:
            from deltalake import DeltaTable

            return list(DeltaTable(self.where).to_pyarrow_table().to_pylist())
        if self.form is TableFormat.ICEBERG:
            from pyiceberg.catalog import load_catalog

            return list(load_catalog(**self.catalog).load_table(self.where).scan().to_arrow().to_pylist())
        return list(pq.read_table(self.where).to_pylist())

    def places(self) -> list[tuple[int, int]]:
        return sorted((row["partition"], row["offset"]) for row in self.rows())
