"""`make bench-spark`: our source and sink, the stock connector and native Parquet on the same data, in one run.

Every session is a process on two cores; sessions of the connectors alternate, so that both meet the same machine. The
topic lies on one of three brokers without replication; the audit reads a replicated copy. Figures are medians; only the
ratios carry over to another machine. Writes docs/benchmarks/spark.md and .json.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from bench import machine
from hightide.client.cluster import Cluster as Client
from hightide.client.producer import Producer
from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.spark.java import prepare_java
from hightide.testing import Cluster
from tools.stock_connector import StockConnector

RESULTS = Path(__file__).parent.parent / "docs" / "benchmarks"
SCRIPT = Path(__file__).with_name("spark_jobs.py")
TOPIC, COPY, LATENCY = "bench", "copy", "latency"
OURS, STOCK, PARQUET = "hightide", "kafka", "parquet"
NAMES = {OURS: "our source and sink", STOCK: "stock connector 4.0.0", PARQUET: "native Parquet"}
JOBS = {"count": "count", "noop": "all columns to noop", "aggregate": "JSON field aggregation", "write": "write"}
GOALS = {"count": 3.0, "noop": 2.5, "aggregate": 1.0, "write": 3.0}  # times the stock connector
COUNT_ROWS_GOAL = 1.2e6
STEP_SECONDS = 3600
PAUSE_SECONDS = 0.35  # between two records of the latency test: every one has a batch of its own


class Size(NamedTuple):
    """How much is measured."""

    records: int
    runs: int
    sessions: int
    latencies: int


FULL = Size(2_000_000, 3, 2, 100)
QUICK = Size(50_000, 1, 1, 5)
PARTITIONS = 4


class Bench:
    """One run of everything."""

    def __init__(self, console: Console, directory: Path, size: Size) -> None:
        self._console = console
        self._directory = directory
        self._size = size
        self._stock = StockConnector()
        self._java = prepare_java()
        self._steps = 0
        self._parquet = str(directory / "parquet")

    def run(self) -> dict[str, Any]:
        """Measure all rows."""
        self._say("making the data")
        self._session(OURS, {"step": "data", "records": self._size.records, "partitions": PARTITIONS})
        settings = {"log.retention.ms": "-1"}
        with Cluster(3, processes=True, directory=self._directory / "cluster", settings=settings) as cluster:
            for name, copies in ((TOPIC, 1), (COPY, 3), (LATENCY, 1)):
                cluster.create_topic(name, PARTITIONS if name != LATENCY else 1, replication_factor=copies)
            self._fill(cluster, TOPIC)
            self._fill(cluster, COPY)
            seconds = self._throughput(cluster)
            latency = {each: self._latency(cluster, each) for each in (OURS, STOCK)}
            audited = self._audit(cluster)
        return {"seconds": seconds, "latency": latency, "audit": audited}

    def _fill(self, cluster: Cluster, topic: str) -> None:
        self._say(f"filling the topic {topic}")
        plan = self._plan(cluster, OURS, topic) | {"step": "measure", "runs": 0, "only": ["write"]}
        self._session(OURS, plan)

    def _throughput(self, cluster: Cluster) -> dict[str, dict[str, list[float]]]:
        seconds: dict[str, dict[str, list[float]]] = {name: {} for name in (OURS, STOCK, PARQUET)}
        for round_number in range(self._size.sessions):
            for name in (OURS, STOCK, PARQUET):
                self._say(f"session {round_number + 1} of {self._size.sessions}: {NAMES[name]}")
                target = f"target-{name}-{round_number}"
                cluster.create_topic(target, PARTITIONS, replication_factor=1)
                plan = self._plan(cluster, name, target) | {"step": "measure", "runs": self._size.runs}
                for job, runs in self._session(name, plan).items():
                    seconds[name].setdefault(job, []).extend(runs)
        return seconds

    def _plan(self, cluster: Cluster, name: str, target: str) -> dict[str, Any]:
        broker = {"kafka.bootstrap.servers": cluster.bootstrap}
        return {
            "format": name, "records": self._size.records, "read": broker | {"subscribe": TOPIC},
            "write": broker | {"topic": target},
        }  # fmt: skip

    def _latency(self, cluster: Cluster, name: str) -> list[float]:
        """Seconds from a record's acknowledgement to the end of the batch that had it."""
        self._say(f"trigger latency: {NAMES[name]}")
        folder = self._directory / f"latency-{name}"
        folder.mkdir()
        plan = {
            "step": "stream", "format": name, "checkpoint": str(folder / "checkpoint"), "ready": str(folder / "ready"),
            "stop": str(folder / "stop"),
            "read": {"kafka.bootstrap.servers": cluster.bootstrap, "subscribe": LATENCY},
        }  # fmt: skip
        process, result = self._start(name, plan)
        while not (folder / "ready").exists():
            if process.poll() is not None:
                raise SystemExit(f"the session of {NAMES[name]} ended with {process.returncode}")
            time.sleep(0.1)
        with BlockingCluster(ClientSettings(cluster.bootstrap, "bench")) as client:
            kept = client.run(self._send_slowly)
        time.sleep(5 * PAUSE_SECONDS)
        (folder / "stop").touch()
        process.wait(STEP_SECONDS)
        events = json.loads(result.read_text())
        found = []
        for event in events:
            started = datetime.fromisoformat(event["timestamp"].replace("Z", "+00:00")).timestamp()
            end = event["sources"][0]["endOffset"]
            offset = (json.loads(end) if isinstance(end, str) else end)[LATENCY]["0"] - 1
            if offset in kept:
                found.append(started + event["durationMs"]["triggerExecution"] / 1000 - kept[offset])
        return found

    async def _send_slowly(self, client: Client) -> dict[int, float]:
        import asyncio

        producer = Producer(client)
        kept = {}
        for index in range(self._size.latencies):
            sent = await producer.send(LATENCY, b"%d" % index)
            delivered = await sent
            kept[delivered.offset] = time.time()
            await asyncio.sleep(PAUSE_SECONDS)
        await producer.close()
        return kept

    def _audit(self, cluster: Cluster) -> dict[str, float]:
        self._say("audit of three replicas")
        from hightide.spark import session
        from hightide.spark.auditing import run_audit

        spark = session("local[2]", name="bench-audit", conf={"spark.driver.memory": "2g"})
        found = {}
        for full_hash in (False, True):
            run_audit(spark, cluster.bootstrap, [COPY], full_hash=full_hash)  # warms up
            started = time.monotonic()
            report = run_audit(spark, cluster.bootstrap, [COPY], full_hash=full_hash)
            total = sum(replica.bytes for replica in report.replicas)
            found["full hash" if full_hash else "CRC"] = total / 1e6 / (time.monotonic() - started)
        spark.stop()
        return found

    # ------------------------------------------------------------------ sessions

    def _session(self, name: str, plan: dict[str, Any]) -> Any:
        process, result = self._start(name, plan)
        if process.wait(STEP_SECONDS):
            raise SystemExit(f"the session of {NAMES[name]} failed: see {self._directory / 'sessions.log'}")
        return json.loads(result.read_text())

    def _start(self, name: str, plan: dict[str, Any]) -> "tuple[subprocess.Popen[bytes], Path]":
        self._steps += 1
        path = self._directory / f"plan-{self._steps}.json"
        result = self._directory / f"result-{self._steps}.json"
        path.write_text(json.dumps(plan | {"parquet": self._parquet}))
        if name == STOCK:
            python, environment = str(self._stock.home / "python" / "bin" / "python"), self._stock.environment()
        else:
            python, environment = sys.executable, os.environ | {"JAVA_HOME": str(self._java)}
        with (self._directory / "sessions.log").open("ab") as log:
            process = subprocess.Popen(
                [python, str(SCRIPT), str(path), str(result)],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=self._directory,
            )
        return process, result

    def _say(self, what: str) -> None:
        self._console.print(f"· {what}", highlight=False)


def rows_of(found: dict[str, Any], size: Size) -> list[Sequence[str]]:
    """The table: what, ours, stock, Parquet, ratio and goal."""
    seconds = found["seconds"]
    rows: list[Sequence[str]] = []
    for job, title in JOBS.items():
        speed = {name: size.records / median(runs[job]) for name, runs in seconds.items() if job in runs}
        ratio = speed[OURS] / speed[STOCK]
        goal = f"≥ {GOALS[job]:g}x" + (f", ≥ {COUNT_ROWS_GOAL / 1e6:g} M rows/s" if job == "count" else "")
        reached = ratio >= GOALS[job] and (job != "count" or speed[OURS] >= COUNT_ROWS_GOAL)
        cells = [_speed(speed.get(name), found["bytes_per_record"]) for name in (OURS, STOCK, PARQUET)]
        rows.append((title, *cells, f"{ratio:.2f}x", f"{goal}: {'reached' if reached else 'missed'}"))
    for name, values in found["latency"].items():
        if len(values) > 1:
            cuts = quantiles(values, n=20)
            text = f"p50 {median(values) * 1000:.0f} ms, p95 {cuts[18] * 1000:.0f} ms"
            rows.append((f"trigger latency, {NAMES[name]}", text, "", "", "", f"{len(values)} records"))
    for name, value in found["audit"].items():
        rows.append((f"audit of 3 replicas, {name}", f"{value:.0f} MB/s", "", "", "", ""))
    return rows


def _speed(rows_per_second: float | None, size: float) -> str:
    if rows_per_second is None:
        return ""
    return f"{rows_per_second / 1e6:.2f} M rows/s, {rows_per_second * size / 1e6:.0f} MB/s"


INTRODUCTION = """\
Written by `make bench-spark`: our source and sink (pyspark 4.3), the stock connector (4.0.0, the release that can be
had whole) and native Parquet on the same data, on two cores that the brokers share. Medians; only ratios carry over to
another machine.
"""
HEADINGS = ("what", "ours", "stock", "Parquet", "ours/stock", "goal")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.spark", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="little data: a smoke test, no figures are written")
    parser.add_argument("--dir", type=Path, default=Path(".bench"), help="where the data goes")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    console = Console(width=None if sys.stdout.isatty() else 150)
    directory = options.dir.resolve() / f"spark-{os.getpid()}"
    directory.mkdir(parents=True)
    try:
        with machine.watch() as seen:
            time.sleep(1.0)
        busy = f"other processes used {seen.foreign_cores:.2f} cores before the start"
        found = Bench(console, directory, size).run()
        parquet = sum(file.stat().st_size for file in (directory / "cluster").rglob("bench-*/*.log"))
        found["bytes_per_record"] = parquet / size.records
        rows = rows_of(found, size)
        table = Table(*HEADINGS, title=f"{size.records:,} records of {found['bytes_per_record']:.0f} bytes; {busy}")
        for row in rows:
            table.add_row(*row)
        console.print(table)
        if not options.quick:
            _write(found, rows, size, busy)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 0


def _write(found: dict[str, Any], rows: list[Sequence[str]], size: Size, busy: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "spark.json").write_text(json.dumps(found, indent=1) + "\n")
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    measured = f"measured {datetime.now(UTC):%Y-%m-%d} on {machine.CORES} cores; {busy}"
    records = f"{size.records:,} records of {found['bytes_per_record']:.0f} bytes"
    table = "\n".join(lines)
    text = f"# Spark\n\n{INTRODUCTION}\n{records}; {measured}.\n\n{table}\n"
    (RESULTS / "spark.md").write_text(text)


if __name__ == "__main__":
    sys.exit(main())
