"""kafka-python's own integration tests, from its source distribution, against the broker.

They were written by others for Kafka, so they ask what we would not think of. What is left out and why is in
kafka_python_suite/exclusions.txt. Words there that are not APIs: `authorizer` needs a broker with one, `broker-0` a
broker with that id, and `unstable-on-kafka` is a test that Apache Kafka itself does not pass reliably on this set-up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import kafka
import pytest

from tests.conformance.cluster import Cluster
from tests.conformance.raw_connection import API_KEYS

HERE = Path(__file__).resolve().parent / "kafka_python_suite"
CACHE = Path(__file__).resolve().parent.parent.parent / ".cache" / "kafka-python"
FILES = ["test_admin_integration.py", "test_consumer_integration.py", "test_producer_integration.py"]

# The suite is one test of ours, so one worker of pytest-xdist runs it; its time-out is its own.
pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("kafka-python-suite")]


@pytest.fixture(scope="session")
def suite() -> Path:
    """The folder with `test/integration` of the installed version, complete with our stand-ins."""
    version = kafka.__version__
    folder = CACHE / f"kafka_python-{version}"
    if not (folder / "test" / "service.py").exists():
        _unpack(_download(version), folder)
    return folder


def _download(version: str) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-binary", ":all:", "--no-deps"]
    done = subprocess.run([*command, "--dest", str(CACHE), f"kafka-python=={version}"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the source distribution of kafka-python {version} cannot be had: {done.stderr[-500:]}")
    return next(CACHE.glob(f"kafka_python-{version}*.tar.gz"))


def _unpack(archive: Path, folder: Path) -> None:
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    with tarfile.open(archive) as tar:
        wanted = [member for member in tar.getmembers() if "/test/" in member.name]
        tar.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 and newer have it
        tar.extractall(partial, members=wanted)
    tests = partial / archive.name.removesuffix(".tar.gz") / "test"
    (tests / "__init__.py").touch()
    shutil.copy(HERE / "service.py", tests / "service.py")
    shutil.rmtree(folder, ignore_errors=True)
    tests.parent.rename(folder)
    shutil.rmtree(partial)


def exclusions(cluster: Cluster) -> set[str]:
    """The tests that need something this cluster does not have."""
    excluded = set()
    for line in (HERE / "exclusions.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            test, needs = line.rsplit(": ", 1)
            if any(need not in API_KEYS or not cluster.serves(need) for need in needs.split()):
                excluded.add(test)
    return excluded


def run_suite(suite: Path, cluster: Cluster, report: Path, *arguments: str) -> dict[str, str]:
    """Run pytest on the suite; test name → passed, failed or skipped."""
    environment = {
        **os.environ,
        "KAFKA_URI": f"kafka://{cluster.bootstrap}",
        "KAFKA_VERSION": "4.3.0",
        "KAFKA_ROOT": str(suite),
    }
    environment.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, "--rootdir", str(suite), "-p", "no:cacheprovider"]
    command += ["-q", "--tb=short", "--timeout-method=signal", f"--junit-xml={report}", *arguments]
    done = subprocess.run(command, cwd=suite, env=environment, capture_output=True, text=True)
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    outcomes = {}
    for case in ElementTree.parse(report).iter("testcase"):
        module = case.get("classname", "").rsplit(".", 1)[-1]
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        outcomes[f"{module}.py::{case.get('name')}"] = outcome
        if outcome == "failed":
            print(case.get("name"), *(child.text for child in case if child.tag in ("failure", "error")))
    return outcomes


def paths(names: list[str] | set[str]) -> list[str]:
    return [f"test/integration/{name}" for name in sorted(names)]


@pytest.mark.covers("T18")
def test_kafka_pythons_integration_tests_pass(cluster: Cluster, suite: Path, tmp_path: Path) -> None:
    left_out = [f"--deselect={path}" for path in paths(exclusions(cluster))]
    outcomes = run_suite(suite, cluster, tmp_path / "report.xml", "--timeout=60", *left_out, *paths(FILES))
    assert [name for name, outcome in outcomes.items() if outcome == "failed"] == []
    assert sum(outcome == "passed" for outcome in outcomes.values()) >= 30


def test_what_is_left_out_does_not_pass(cluster: Cluster, suite: Path, tmp_path: Path) -> None:
    lines = (HERE / "exclusions.txt").read_text().splitlines()
    unstable = {line.rsplit(": ", 1)[0] for line in lines if line.endswith("unstable-on-kafka")}
    left_out = exclusions(cluster) - unstable
    # They mostly wait for an answer that never comes: many at once, and not for long.
    outcomes = run_suite(suite, cluster, tmp_path / "report.xml", "--timeout=5", "-n", "6", *paths(left_out))
    assert [name for name, outcome in outcomes.items() if outcome == "passed"] == []
    assert set(outcomes) == left_out
