"""Spark on top of topics: a source, a sink and the jobs of the data pipeline, for ordinary DataFrames, without a jar.

    from hightide.spark import read, read_stream, session, write

    spark = session()
    orders = read(spark, "127.0.0.1:9092", "orders")
    write(orders.select("key", "value"), "127.0.0.1:9092", "copy")

`spark.read.format("hightide")` works in every PySpark session that has hightide installed; these functions only spell
the options. Nothing is imported here before it is used; a module must not have the name of a function of this list.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hightide.spark.auditing import audit
    from hightide.spark.frames import read, read_stream, write
    from hightide.spark.lake import to_lake
    from hightide.spark.sessions import session

__all__ = ["audit", "read", "read_stream", "session", "to_lake", "write"]

_PLACES = {
    "audit": "hightide.spark.auditing",
    "read": "hightide.spark.frames",
    "read_stream": "hightide.spark.frames",
    "session": "hightide.spark.sessions",
    "to_lake": "hightide.spark.lake",
    "write": "hightide.spark.frames",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
