"""All checkers together: silent on what a correct cluster shows, and never silent when something is changed."""

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from hightide.sim.history.checks import CHECKERS, check_all
from hightide.sim.history.findings import Finding, describe
from hightide.sim.history.windows import measure
from tests.unit.sim.history.model_log import correct_history
from tests.unit.sim.history.mutations import MUTATIONS, Mutation
from tests.unit.sim.history.stories import Story

SEEDS = st.integers(0, 2**32)


@given(SEEDS, st.integers(1, 300))
def test_a_correct_cluster_gives_no_findings(seed: int, steps: int) -> None:
    history = correct_history(seed, steps)
    found = check_all(history)
    assert found == [], describe(found)
    assert all(window.seconds > 0 for window in measure(history).unavailable)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@settings(suppress_health_check=[HealthCheck.filter_too_much], max_examples=50)
@given(SEEDS, st.integers(60, 300))
def test_a_single_change_is_found(mutation: Mutation, seed: int, steps: int) -> None:
    history = correct_history(seed, steps)
    expected = mutation(history, Random(seed))
    assume(expected is not None)
    assert expected is not None
    found = check_all(history)
    assert expected <= {finding.checker for finding in found}, describe(found)


def test_every_checker_says_its_own_number() -> None:
    assert list(CHECKERS) == ["K1", "K2", "K3", "K4", "K7", "K8", "K9", "K10", "K12", "K14", "K15", "K16", "K20"]


def test_checking_again_after_more_was_recorded_sees_it() -> None:
    story = Story()
    story.sent(1, at=0)
    story.final((0, 1))
    assert check_all(story.history) == []
    story.read((0, 2), client="b")
    assert {finding.checker for finding in check_all(story.history)} == {"K1", "K12"}


def test_findings_are_told_with_their_operations() -> None:
    story = Story()
    story.sent(1, at=0)
    story.final()
    assert describe(check_all(story.history)) == (
        "K4 orders-0: 1 was acknowledged at offset 0 and is gone\n"
        "    #1-2 1.000-2.000 s producer sends 1 to orders-0: ok at offset 0\n"
        "    #3-6 3.000-6.000 s final reads everything of orders-0: reached the end"
    )


def test_only_the_first_findings_are_told_in_full() -> None:
    findings = [Finding("K1", f"orders-0 offset {offset}", "two values") for offset in range(25)]
    assert describe(findings).splitlines()[-2:] == ["K1 orders-0 offset 19: two values", "... and 5 more"]
