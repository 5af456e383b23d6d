"""What `bench.spark` runs in a Spark session, ours or the stock connector's: standard library and pyspark alone.

`python spark_jobs.py PLAN RESULT`: the plan says which format to read and write with; the result has the seconds of
every run. The first run of each job warms up and is left out; `only` names jobs if not all are wanted.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

FIELDS = "id BIGINT, user STRING, status STRING, amount DOUBLE, note STRING"
Json = dict[str, Any]


def open_session() -> Any:
    """A session on two cores with the jars that are named in the environment."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("bench")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
    }
    if os.environ.get("STOCK_JARS"):
        settings["spark.jars"] = os.environ["STOCK_JARS"]
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def make_data(spark: Any, plan: Json) -> None:
    """The records of all measurements as Parquet: a key and a JSON value, about 120 bytes together."""
    frame = spark.range(plan["records"], numPartitions=plan["partitions"]).selectExpr(
        "CAST(id AS STRING) AS key",
        """to_json(named_struct('id', id, 'user', concat('user-', id % 10007), 'status',
           element_at(array('new', 'paid', 'sent', 'done'), CAST(id % 4 + 1 AS INT)), 'amount', (id % 9973) / 100,
           'note', sha1(CAST(id AS STRING)))) AS value""",
    )
    frame.write.mode("overwrite").parquet(plan["parquet"])


def jobs_of(spark: Any, plan: Json) -> dict[str, Callable[[], object]]:
    """The jobs of a plan by name."""

    def source() -> Any:
        if plan["format"] == "parquet":
            return spark.read.parquet(plan["parquet"])
        return spark.read.format(plan["format"]).options(**plan["read"]).load()

    def count() -> None:
        found = source().count()
        assert found == plan["records"], found

    def noop() -> None:
        source().write.format("noop").mode("overwrite").save()

    def aggregate() -> None:
        parsed = source().selectExpr(f"from_json(CAST(value AS STRING), '{FIELDS}') AS v")
        rows = parsed.groupBy("v.status").sum("v.amount").collect()
        assert len(rows) == 4

    def write() -> None:
        frame = spark.read.parquet(plan["parquet"])
        frame.write.format(plan["format"]).mode("append").options(**plan["write"]).save()

    jobs: dict[str, Callable[[], object]] = {"count": count, "noop": noop, "aggregate": aggregate}
    return jobs if plan["format"] == "parquet" else jobs | {"write": write}


def measure(spark: Any, plan: Json) -> Json:
    """Seconds of every run of every job."""
    seconds = {}
    for name, job in jobs_of(spark, plan).items():
        if name not in plan.get("only", [name]):
            continue
        runs = []
        for _ in range(plan["runs"] + 1):
            started = time.monotonic()
            job()
            runs.append(time.monotonic() - started)
        seconds[name] = runs[1:]
    return seconds


def stream(spark: Any, plan: Json) -> list[Json]:
    """The progress of a stream into nothing, until the file `stop` appears; `ready` tells that it runs."""
    frame = spark.readStream.format(plan["format"]).options(**plan["read"]).load()
    query = frame.writeStream.format("noop").trigger(processingTime="0 seconds")
    running = query.option("checkpointLocation", plan["checkpoint"]).start()
    ready, stop = Path(plan["ready"]), Path(plan["stop"])
    events: dict[int, Json] = {}
    while not stop.exists():
        for progress in running.recentProgress:
            event = json.loads(progress.json) if hasattr(progress, "json") else progress
            if event["numInputRows"]:
                events[event["batchId"]] = event
        if running.lastProgress is not None and not ready.exists():
            ready.touch()
        error = running.exception()
        if error is not None:
            raise error
        time.sleep(0.05)
    running.stop()
    return list(events.values())


def main() -> None:
    """Run a plan."""
    plan = json.loads(Path(sys.argv[1]).read_text())
    spark = open_session()
    steps: dict[str, Callable[[Any, Json], Any]] = {"data": make_data, "measure": measure, "stream": stream}
    result = steps[plan["step"]](spark, plan)
    Path(sys.argv[2]).write_text(json.dumps(result))
    spark.stop()


if __name__ == "__main__":
    main()
