"""The jobs on a real Spark cluster: a master and two workers, each a process, from the pyspark package."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pyspark
import pytest

from hightide.spark.java import prepare_java
from tests.spark.topics import Topics

pytestmark = [pytest.mark.covers("S10"), pytest.mark.long]
START_SECONDS = 120.0
JOB_SECONDS = 600.0
SPARK_HOME = Path(pyspark.__file__).parent


class StandaloneCluster:
    """Where it listens, and what its workers have run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        port, self._page = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._ends = ExitStack()
        environment = os.environ | {"JAVA_HOME": str(prepare_java()), "SPARK_HOME": str(SPARK_HOME)}
        self._environment = environment | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(self._page))
        self._await(lambda: bool(self._state()), "the master answers")
        for number in (1, 2):
            work = directory / f"worker-{number}"
            self._start("worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(work), self.url)
        self._await(lambda: len(self._state().get("workers", ())) == 2, "both workers are there")

    def executors(self) -> dict[str, int]:
        """How many executors each worker has run."""
        return {
            worker.name: len(list(worker.glob("app-*/*/stderr"))) for worker in sorted(self._directory.glob("worker-*"))
        }

    def close(self) -> None:
        """End all processes."""
        self._ends.close()

    def _start(self, kind: str, *arguments: str) -> None:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments]
        log = self._ends.enter_context((self._directory / f"{kind}.log").open("ab"))
        process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
        self._ends.callback(process.wait)
        self._ends.callback(process.kill)

    def _state(self) -> dict[str, list[object]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page}/json/", timeout=10) as page:
                return dict(json.load(page))
        except OSError:
            return {}

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"not after {START_SECONDS} s: {what}"
            time.sleep(0.2)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(tmp_path_factory.mktemp("standalone"))
    yield cluster
    cluster.close()


def pipeline(standalone: StandaloneCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command on that cluster."""
    settings = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "4"}
    options = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    command = [sys.executable, "-m", "hightide", "pipeline", *arguments, "--master", standalone.url, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=JOB_SECONDS, check=False)


def test_an_audit_runs_on_all_workers(standalone: StandaloneCluster, topics: Topics, topic: Callable[..., str]) -> None:
    name = topic(4, replication_factor=3)
    for partition in range(4):
        topics.fill(name, 1000, partition=partition)
    before = standalone.executors()
    done = pipeline(standalone, "audit", name, "-b", topics.bootstrap, "-o", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["clean"] is True
    assert [replica["bound"] for replica in report["replicas"]] == [1000] * 12
    after = standalone.executors()
    assert {worker: after[worker] - before.get(worker, 0) for worker in after} == {"worker-1": 1, "worker-2": 1}


def test_a_table_is_filled_by_all_workers(
    standalone: StandaloneCluster, topics: Topics, topic: Callable[..., str], tmp_path: Path
) -> None:
    from deltalake import DeltaTable

    name = topic(4)
    for partition in range(4):
        topics.fill(name, 1000, partition=partition)
    arguments = ["lake", name, "--to", str(tmp_path / "table"), "-b", topics.bootstrap, "-o", "json"]
    done = pipeline(standalone, *arguments)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == 4000
    again = pipeline(standalone, *arguments)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["records"] == 0
    rows = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().select(["partition", "offset"]).to_pylist()
    assert len({(row["partition"], row["offset"]) for row in rows}) == len(rows) == 4000
