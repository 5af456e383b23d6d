"""Random lives of in-sync partitions at level 0, with the real controller: every seed keeps every invariant, and all is
well after healing."""

import os
import subprocess
import sys

import pytest

from hightide.sim.level0.partition_campaign import PartitionRun, run_partitions
from tests.simulation.seeds import LONG, QUICK, named

PRINT_DIGEST = """
from hightide.sim.level0.partition_campaign import run_partitions
run = run_partitions(5, trouble_seconds=30)
print(run.digest, run.events)
"""


def kept(run: PartitionRun) -> PartitionRun:
    told = "\n".join(run_partitions(run.seed, keeps_timeline=True).timeline[-60:]) if run.finding else ""
    assert run.finding is None, f"seed {run.seed}: {run.finding}\n{told}"
    return run


def campaign(seeds: range) -> None:
    runs = [kept(run_partitions(seed)) for seed in seeds]
    assert sum(run.counts for run in runs) >= 0.7 * len(runs), "too many runs in which too little happens"


@pytest.mark.covers("T4", "T6", "T12", "C15", "C16", "C17", "C20", "C21", "C25", "C31", "N1")
@pytest.mark.parametrize("portion", QUICK["partitions"], ids=named)
def test_every_seed_keeps_the_invariants(portion: range) -> None:
    campaign(portion)


@pytest.mark.long
@pytest.mark.parametrize("portion", LONG["partitions"], ids=named)
def test_many_seeds_keep_the_invariants(portion: range) -> None:
    campaign(portion)


@pytest.mark.covers("N1")
def test_the_same_seed_is_the_same_run() -> None:
    first, second, other = (run_partitions(seed, trouble_seconds=30) for seed in (5, 5, 6))
    assert (first.digest, first.events) == (second.digest, second.events)
    assert other.digest != first.digest


def test_the_same_seed_is_the_same_run_in_every_interpreter() -> None:
    """Hashes of text differ between processes: nothing may depend on the order of a set."""
    told = [
        subprocess.run(
            [sys.executable, "-c", PRINT_DIGEST],
            env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True,
        ).stdout
        for hash_seed in ("0", "1")
    ]  # fmt: skip
    assert told[0] == told[1] != ""


def test_keeping_the_timeline_changes_nothing() -> None:
    silent, told = run_partitions(5, trouble_seconds=30), run_partitions(5, trouble_seconds=30, keeps_timeline=True)
    assert silent.digest == told.digest
    assert not silent.timeline
    assert any("FAULT" in line for line in told.timeline)


def test_all_kinds_of_faults_strike() -> None:
    struck: set[str] = set()
    for seed in range(12):
        struck |= run_partitions(seed).faults.keys()
    assert struck == {
        "kill", "fast_restart", "double_crash", "kill_leader", "stop_cleanly", "pause", "pause_then_kill",
        "lose_power", "lose_all_power", "wipe", "stale_disk", "short_log", "slow_disk",
        "isolate", "cut_one_way", "lossy", "stalls", "hold", "crash_controller", "cut_controller",
        "minimum", "recreate", "switch", "freeze_clock",
    }  # fmt: skip


@pytest.mark.parametrize("seed", [13324, 13393, 14383])
def test_sets_and_minimum_of_one_image_are_taken_together(seed: int) -> None:
    """A leader that learned of several batches at once had the new in-sync set and the old minimum, and committed."""
    kept(run_partitions(seed))
