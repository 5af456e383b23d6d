"""A Spark session that works on an empty machine: Java found or brought, this Python for the workers, little noise.

Nobody needs it: the source and the sink are there in every PySpark session. It is what the command line, the tests and
the tour start from.
"""

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from hightide.spark.java import prepare_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT_MASTER = "local[*]"
_ALWAYS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
}
# On one machine nothing outside of it has to reach the driver.
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}


def session(
    master: str = DEFAULT_MASTER, *, name: str = "hightide", conf: Mapping[str, str] | None = None
) -> "SparkSession":
    """The Spark session of this process, made on first use; `conf` are Spark's own settings and win over ours."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise ImportError("Spark is not installed here: pip install 'hightide[spark]' brings it") from error

    if SparkSession.getActiveSession() is None:
        prepare_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    settings = _ALWAYS | (_LOCAL if master.startswith("local") else {}) | dict(conf or {})
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()
