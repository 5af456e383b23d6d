"""The lake job under kill -9 at any moment, again and again, while records keep coming."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hightide.spark.tables import TableFormat
from tests.spark.lakes import Lake
from tests.spark.topics import Topics

pytestmark = [pytest.mark.covers("S3"), pytest.mark.long, pytest.mark.timeout(3600)]
KILLS = 6
SMALL_BATCH, LARGE_BATCH = 200, 20_000  # many moments to be killed at; and a quick end
PARTITIONS = 3


class Filler:
    """Fills all partitions of a topic until it is told to stop."""

    def __init__(self, topics: Topics, name: str) -> None:
        self.ends = [0] * PARTITIONS
        self._topics = topics
        self._name = name
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._fill)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _fill(self) -> None:
        while not self._stopping.wait(0.05):
            for partition in range(PARTITIONS):
                self.ends[partition] = self._topics.fill(self._name, 20, partition=partition)


def start(lake: Lake, topics: Topics, name: str, trigger: str, records: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hightide", "pipeline", "lake", name, "-b", topics.bootstrap, "--to", lake.where]
    command += ["--format", lake.form, "--trigger", trigger, "--option", f"maxOffsetsPerTrigger={records}"]
    command += ["--compact-to", "64KB", "--master", "local[1]", "--conf", "spark.driver.memory=512m"]
    command += [part for key, value in lake.catalog.items() for part in ("--catalog", f"{key}={value}")]
    return subprocess.Popen(
        command, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )


@pytest.mark.parametrize("form", list(TableFormat))
def test_every_record_exactly_once(
    topics: Topics, topic: Callable[..., str], tmp_path: Path, form: TableFormat
) -> None:
    dice = random.Random(7)
    name, lake = topic(PARTITIONS), Lake(form, tmp_path / "lake")
    filler = Filler(topics, name)
    try:
        for _ in range(KILLS):
            job = start(lake, topics, name, "200ms", SMALL_BATCH)
            assert job.stderr is not None
            wanted = dice.randint(1, 8)
            seen = 0
            for line in job.stderr:
                seen += line.startswith("batch ")
                if seen >= wanted:
                    break
            assert seen >= wanted, "the job ended by itself"
            threading.Event().wait(dice.random())
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            job.stderr.close()
    finally:
        filler.stop()
    last = start(lake, topics, name, "available-now", LARGE_BATCH)
    _, said = last.communicate()
    assert last.returncode == 0, said
    assert lake.places() == [(part, offset) for part, end in enumerate(filler.ends) for offset in range(end)]
