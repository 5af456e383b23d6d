"""The comparison from start to end, on real brokers and with its real drivers, with hightide in Kafka's place."""

import time
from pathlib import Path

import pytest

from bench.admin import record_count, topic_partitions
from bench.comparison.arena import Arena
from bench.comparison.contests import HIGHTIDE, KAFKA
from bench.comparison.effort import quick
from bench.comparison.loads import is_steady
from bench.comparison.page import markdown
from bench.comparison.plots import plots
from bench.comparison.result import document
from bench.comparison.run import Comparison
from bench.hightide_server import hightide_cluster

STOPPED = "T"  # what /proc says


def test_when_a_server_died_all_begin_anew(tmp_path: Path) -> None:
    said: list[str] = []
    effort = quick(tmp_path, said.append)
    with Arena(effort, {HIGHTIDE: hightide_cluster, KAFKA: hightide_cluster}, brokers=1) as arena:
        assert arena.prepare()
        first = arena.pids
        assert not arena.prepare()
        arena.cluster(KAFKA).kill()
        assert arena.prepare()
        assert len(arena.pids) == 2
        assert not set(arena.pids) & set(first)
        cluster = arena.cluster(HIGHTIDE)
        with arena.topic(cluster, 3, "fsync") as topic:
            assert record_count(cluster, topic) == 0
        assert topic_partitions(cluster.any_server(), topic) == []


def test_whoever_runs_has_the_machine_alone(tmp_path: Path) -> None:
    said: list[str] = []
    effort = quick(tmp_path, said.append)
    with Arena(effort, {HIGHTIDE: hightide_cluster, KAFKA: hightide_cluster}, brokers=3) as arena:
        arena.prepare()
        for system, other in ((HIGHTIDE, KAFKA), (KAFKA, HIGHTIDE), (HIGHTIDE, KAFKA)):
            cluster = arena.cluster(system)
            running = set(cluster.pids)
            deadline = time.monotonic() + 10
            while {pid for pid in arena.pids if _state(pid) != STOPPED} != running:  # a signal takes its time
                assert time.monotonic() < deadline, f"{other} does not stand still beside {system}"
            with arena.topic(cluster, 1, "page cache") as topic:
                assert record_count(cluster, topic) == 0, f"{other} stood still and {system} works again"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@pytest.mark.parametrize(
    ("costs", "steady"),
    [
        ([9.0, 5.0, 3.0], False),  # too few to tell
        ([9.0, 5.0, 3.0, 2.0, 1.9, 1.9], False),
        ([9.0, 5.0, 2.0, 1.98, 1.97], True),
        ([9.0, 2.0, 2.5, 2.4], True),
        ([2.0, 2.0, 2.0, 1.5], False),
    ],
)
def test_a_system_is_warm_when_the_same_work_costs_no_less_than_before(costs: list[float], steady: bool) -> None:
    assert is_steady(costs) is steady


def test_a_quick_comparison_of_hightide_with_itself(tmp_path: Path) -> None:
    said: list[str] = []
    effort = quick(tmp_path, said.append)
    comparison = Comparison(
        effort, ["consume", "connections", "latency"], {HIGHTIDE: hightide_cluster, KAFKA: hightide_cluster}
    )  # fmt: skip
    contests = comparison.measure()
    lines = [line for contest in contests for line in contest.lines]
    assert {contest.row for contest in contests} == {"consume", "connections", "latency"}
    assert [line.failure for line in lines if line.failure] == []
    assert all(trial.value > 0 for line in lines for trial in line.trials)
    assert [len(line.trials) for line in lines] == [1] * len(lines)
    assert list(tmp_path.glob("*-1")) == []  # the servers and their data are gone

    result = document(contests, effort.runs_needed, comparison.loads.library_version, "a test's load")
    assert "| consume 1 KiB | " in markdown(result)
    assert all(text.startswith("<svg ") for text in plots(result).values())
