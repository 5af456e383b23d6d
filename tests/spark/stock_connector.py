"""The stock JVM connector: Spark 4.0.0 with its jars in a virtual environment of its own, driven as a process.

`StockConnector.run(steps)` runs the steps in one session over there and returns what they brought; the part below
`if __name__` is what runs there, on Python's standard library and pyspark alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
POM = Path(__file__).parent / "java" / "pom.xml"
CACHE = ROOT / ".cache" / "stock-connector"
RELEASE = "4.0.0"
RUN_SECONDS = 600


class StockConnector:
    """Fetched once, with pip and Maven, and kept in .cache."""

    def __init__(self) -> None:
        from hightide.spark.java import prepare_java

        self._java = prepare_java()
        key = hashlib.sha256(POM.read_bytes() + RELEASE.encode()).hexdigest()[:12]
        self.home = CACHE / key
        if not self.home.exists():
            self._fetch()

    def _fetch(self) -> None:
        partial = self.home.with_name(f"{self.home.name}.{os.getpid()}")
        venv.create(partial / "python", with_pip=False)
        python = partial / "python" / "bin" / "python"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]
        subprocess.run([*pip, "install", "--quiet", f"pyspark=={RELEASE}"], check=True)
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
        subprocess.run([*maven, f"-DoutputDirectory={partial / 'jars'}"], check=True, cwd=POM.parent)
        try:
            partial.rename(self.home)
        except OSError:
            shutil.rmtree(partial)

    def run(self, steps: list[dict[str, Any]], directory: Path) -> list[Any]:
        """What each step brought: rows for reads, None for writes."""
        plan, result = directory / "steps.json", directory / "results.json"
        plan.write_text(json.dumps(steps))
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
        environment |= {"JAVA_HOME": str(self._java), "STOCK_JARS": ",".join(map(str, self.jars()))}
        python = self.home / "python" / "bin" / "python"
        done = subprocess.run(
            [python, "-E", __file__, plan, result], env=environment, capture_output=True, text=True,
            timeout=RUN_SECONDS, check=False, cwd=directory,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        return list(json.loads(result.read_text()))

    def jars(self) -> list[Path]:
        """The connector and what it needs."""
        return sorted((self.home / "jars").glob("*.jar"))


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
