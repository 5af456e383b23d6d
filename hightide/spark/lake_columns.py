"""Which columns a lakehouse table gets of a record: as the connector has them, as text, or fields of JSON values."""

import re
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

RECORD_PREFIX = "record_"  # of the columns beside JSON fields, which may well be called key, offset or timestamp
MALFORMED = f"{RECORD_PREFIX}malformed"
_KEPT = ("key", "topic", "partition", "offset", "timestamp")
_COMMENT = re.compile(r"^\s*--.*$", re.MULTILINE)


class ValueFormat(StrEnum):
    """What values are."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"


class PlaceColumns(NamedTuple):
    """The columns that say where a record comes from."""

    topic: str = "topic"
    partition: str = "partition"
    offset: str = "offset"


class Layout(NamedTuple):
    """A value format, and for JSON the fields to expand, as `id bigint, customer struct<name: string>`."""

    format: ValueFormat = ValueFormat.BINARY
    schema: str | None = None

    def check(self) -> None:
        """ValueError with a sentence when the two do not go together."""
        if self.format is ValueFormat.JSON and not self.schema:
            raise ValueError("JSON values need a schema that says which fields become columns")
        if self.schema and self.format is not ValueFormat.JSON:
            raise ValueError(f"a schema goes with JSON values, not with {self.format}")

    @property
    def place_columns(self) -> PlaceColumns:
        """What the columns of a record's place are called."""
        if self.format is not ValueFormat.JSON:
            return PlaceColumns()
        return PlaceColumns(*(RECORD_PREFIX + name for name in PlaceColumns()))


def lay_out(records: "DataFrame", layout: Layout) -> "DataFrame":
    """The table's columns of the source's."""
    from pyspark.sql import functions as f

    if layout.format is ValueFormat.BINARY:
        return records
    key = f.col("key").cast("string")
    value = f.col("value").cast("string")
    if layout.format is ValueFormat.STRING:
        return records.withColumns({"key": key, "value": value})
    fields = json_fields(layout.schema or "")
    with_malformed = fields.add(MALFORMED, "string")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": MALFORMED}
    parsed = records.withColumn("parsed", f.from_json(value, with_malformed, options))
    kept = [(key if name == "key" else f.col(name)).alias(RECORD_PREFIX + name) for name in _KEPT]
    return parsed.select(*(f.col("parsed")[name].alias(name) for name in with_malformed.fieldNames()), *kept)


def json_fields(text: str) -> "StructType":
    """The fields of a schema in DDL; ValueError with a sentence when it is none, or clashes with our own columns."""
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    try:
        fields = StructType.fromDDL(_COMMENT.sub("", text))
    except ParseException as error:
        raise ValueError(f"{text!r} is no schema (write for example `id bigint, name string`): {error}") from None
    if not isinstance(fields, StructType):
        raise ValueError(f"{text!r} is one type and no schema (write for example `id bigint, name string`)")
    taken = sorted(name for name in fields.fieldNames() if name.startswith(RECORD_PREFIX))
    if taken:
        what = f"fields can't begin with {RECORD_PREFIX!r}, as {taken[0]!r} does"
        raise ValueError(f"{what}: those columns are the record's own")
    return fields
