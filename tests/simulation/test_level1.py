"""Level 1: whole nodes on virtual time under faults. Seeds pass, and runs repeat exactly."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hightide.sim.seeds import Case, Report, run_case
from tests.simulation.seeds import LONG, QUICK, named

REGRESSIONS = Path(__file__).with_name("regressions.txt")
PRINT_DIGEST = """
from hightide.sim.seeds import Case, run_case
report = run_case(Case("nodes", {seed}, brokers={brokers}))
print(report.digest, report.acknowledged)
"""


def told(report: Report) -> str:
    """What a failing run says: enough to understand it without running it again."""
    return "\n".join([*report.problems[:5], *report.timeline[-80:], report.case.command])


def regressions() -> list[Case]:
    cases = []
    for line in REGRESSIONS.read_text().splitlines():
        if line.startswith("#"):
            continue
        world, seed, brokers, faults, disorder, finale = line.split()[:6]
        cases.append(
            Case(
                world,
                int(seed),
                brokers=None if brokers == "-" else int(brokers),
                faults=None if faults == "-" else frozenset(map(int, faults.split(","))),
                disorder=None if disorder == "-" else float(disorder),
                finale=None if finale == "-" else finale.replace("_", " "),
            )
        )
    return cases


@pytest.mark.covers("N1", "N2")
@pytest.mark.parametrize("portion", QUICK["nodes"], ids=named)
def test_seeds(portion: range) -> None:
    for seed in portion:
        report = run_case(Case("nodes", seed))
        assert report.problems == (), told(report)


@pytest.mark.parametrize("case", regressions(), ids=lambda case: f"{case.world}-{case.seed}")
def test_what_failed_once(case: Case) -> None:
    report = run_case(case)
    assert report.problems == (), told(report)


def test_most_seeds_count() -> None:
    """A run in which nothing was acknowledged or nothing went wrong proves nothing."""
    reports = [run_case(Case("nodes", seed)) for seed in range(1, 7)]
    assert sum(report.counts for report in reports) >= 5


@pytest.mark.parametrize(("seed", "brokers"), [(2, 1), (4, 3)])
def test_the_same_seed_is_the_same_run(seed: int, brokers: int) -> None:
    first, second = (run_case(Case("nodes", seed, brokers=brokers)) for _ in range(2))
    assert first.digest == second.digest
    assert first.timeline == second.timeline
    assert run_case(Case("nodes", seed + 1, brokers=brokers)).digest != first.digest


@pytest.mark.parametrize(("seed", "brokers"), [(2, 1), (4, 3)])
def test_the_same_seed_is_the_same_run_in_every_interpreter(seed: int, brokers: int) -> None:
    """Hashes of text differ between processes: nothing may depend on the order of a set."""
    script = PRINT_DIGEST.format(seed=seed, brokers=brokers)
    digests = [
        subprocess.run(
            [sys.executable, "-c", script],
            env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, text=True, check=True,
        ).stdout
        for hash_seed in ("0", "1")
    ]  # fmt: skip
    assert digests[0] == digests[1] != ""


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("portion", LONG["nodes"], ids=named)
def test_many_seeds(portion: range) -> None:
    for seed in portion:
        report = run_case(Case("nodes", seed))
        assert report.problems == (), told(report)
