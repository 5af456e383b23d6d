"""What tests/spark/test_stock_connector.py runs in the session of the stock connector: on Python's standard library and
pyspark alone, since there is nothing else over there.

`python stock_steps.py STEPS RESULTS`: reads and writes, batch and streaming, each with its options.
"""

from __future__ import annotations

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any


def plain_row(row: Any) -> list[Any]:
    """A row of the source as JSON has it: the same for both connectors, whatever Python types they give."""
    values: list[Any] = []
    for value in row:
        if isinstance(value, bytes | bytearray):
            values.append(base64.b64encode(bytes(value)).decode())
        elif hasattr(value, "timestamp"):
            values.append(value.isoformat())
        elif isinstance(value, list):
            values.append(
                [[each[0], None if each[1] is None else base64.b64encode(each[1]).decode()] for each in value]
            )
        else:
            values.append(value)
    return values


def main() -> None:
    """Run the steps of a file."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", os.environ["STOCK_JARS"])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    results = [_step(spark, step) for step in json.loads(Path(sys.argv[1]).read_text())]
    Path(sys.argv[2]).write_text(json.dumps(results))
    spark.stop()


def _step(spark: Any, step: dict[str, Any]) -> Any:
    options, directory = step["options"], step.get("directory", "")
    if step["kind"] == "read":
        return [plain_row(row) for row in spark.read.format("kafka").options(**options).load().collect()]
    if step["kind"] == "read_stream":
        frame = spark.readStream.format("kafka").options(**options).load()
        query = frame.writeStream.format("parquet").option("path", f"{directory}/out")
        query.option("checkpointLocation", f"{directory}/checkpoint").trigger(
            availableNow=True
        ).start().awaitTermination()
        return [plain_row(row) for row in spark.read.parquet(f"{directory}/out").collect()]
    rows = [
        (_bytes(key), _bytes(value), headers and [(name, _bytes(content)) for name, content in headers], topic)
        for key, value, headers, topic in step["rows"]
    ]
    schema = "key binary, value binary, headers array<struct<key: string, value: binary>>, topic string"
    frame = spark.createDataFrame(rows, schema)
    if step["kind"] == "write":
        frame.write.format("kafka").options(**options).save()
        return None
    frame.write.parquet(f"{directory}/in")
    stream = spark.readStream.schema(schema).parquet(f"{directory}/in").writeStream.format("kafka").options(**options)
    stream.option("checkpointLocation", f"{directory}/checkpoint").trigger(availableNow=True).start().awaitTermination()
    return None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


if __name__ == "__main__":
    main()
