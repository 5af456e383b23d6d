"""Random lives of a group at level 0: no partition has two owners, no committed offset goes back, and it comes to rest.

R14's mutation gate too: each rule off in turn, and K16 reports it in a life that is fine with the rule on.
"""

from collections import Counter

import pytest

from hightide.rules import ALL_ON, RULE_NAMES
from hightide.sim.level0.group_world import GroupRun, run_groups
from tests.simulation.seeds import LONG, QUICK, named

FOUND_BY = {
    "r14_answer_after_commit": 3,
    "r14_fence_generations": 2,
    "r14_fence_instances": 3,
    "r14_static_changes_are_stored": 8,
    "r14_load_to_the_end": 44,
    "r14_state_ends_with_leadership": 1,
}
"""A seed that breaks without the rule."""


def kept(run: GroupRun) -> GroupRun:
    assert run.problems == [], f"seed {run.seed}: {run.problems[0]}"
    return run


def campaign(seeds: range) -> None:
    runs = [kept(run_groups(seed)) for seed in seeds]
    assert sum(run.counts for run in runs) >= 0.9 * len(runs), "too many lives in which too little happens"


@pytest.mark.covers("C29", "N9")
@pytest.mark.parametrize("portion", QUICK["groups"], ids=named)
def test_every_seed_keeps_the_promises(portion: range) -> None:
    campaign(portion)


@pytest.mark.long
@pytest.mark.parametrize("portion", LONG["groups"], ids=named)
def test_many_seeds_keep_the_promises(portion: range) -> None:
    campaign(portion)


def test_the_same_seed_is_the_same_run() -> None:
    first, second, other = run_groups(7, seconds=30), run_groups(7, seconds=30), run_groups(8, seconds=30)
    assert (first.digest, first.events) == (second.digest, second.events)
    assert other.digest != first.digest


def test_all_kinds_of_faults_strike() -> None:
    struck: Counter[str] = Counter()
    for seed in range(3):
        struck.update(run_groups(seed).faults)
    assert struck.keys() == {
        "crash_coordinator", "crash_after_answer", "crash_broker", "cut_off", "move", "pause_member", "kill_member",
        "leave", "replace_static", "come",
    }  # fmt: skip


def test_every_rule_of_groups_is_looked_for() -> None:
    assert FOUND_BY.keys() == {name for name in RULE_NAMES if name.startswith("r14_")}


@pytest.mark.parametrize("rule", FOUND_BY)
def test_without_the_rule_the_campaign_finds_it(rule: str) -> None:
    seed = FOUND_BY[rule]
    kept(run_groups(seed))
    problems = run_groups(seed, rules=ALL_ON.without(rule)).problems
    assert any(problem.startswith("K16") for problem in problems), problems
