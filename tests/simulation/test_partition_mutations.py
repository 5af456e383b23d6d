"""The mutation gate: every rule of hightide/rules.py is found when it is off, by a campaign, a script or a named test.

A named invariant or checker reports it, never a question about the rule itself; and with the rule on the same seed or
script passes: most seeds are among those that `make test` runs anyway, and the scripts are tests of their own.
"""

import pytest

from hightide.rules import RULE_NAMES
from hightide.sim.seeds import Case, run_case
from tests.simulation import mutations
from tests.simulation.mutations import Campaign
from tests.simulation.seeds import QUICK

CAMPAIGNS = mutations.campaigns()
QUICK_SEEDS = 3
"""What is found so soon is looked for in every `make test`, the rest in `make test-all`."""


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_every_rule_is_found_when_it_is_off(rule: str) -> None:
    found = [
        *(campaign for campaign in CAMPAIGNS if campaign.rule == rule and not campaign.is_blind),
        *(script for script in mutations.scripts() if script.rule == rule),
        *mutations.explained().get(rule, ("", ()))[1],
    ]
    assert found, "neither a campaign, nor a script, nor a test that docs/concepts/reliability.md names finds it"


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_every_rule_says_what_it_forbids(rule: str) -> None:
    assert rule in mutations.explained()


def test_nothing_is_found_that_is_no_rule() -> None:
    assert {campaign.rule for campaign in CAMPAIGNS} <= set(RULE_NAMES)
    assert {script.rule for script in mutations.scripts()} <= set(RULE_NAMES)
    assert mutations.explained().keys() <= set(RULE_NAMES)


def assert_found(campaign: Campaign) -> None:
    assert mutations.look(campaign.rule, campaign.seeds) == campaign, (
        f"run `python -m tests.simulation.mutations {campaign.rule}` and `make docs`"
    )
    last = campaign.seeds - 1
    if not campaign.is_blind and not any(last in portion for portion in QUICK[campaign.world]):
        assert run_case(Case(campaign.world, last)).problems == ()


SOON = [campaign for campaign in CAMPAIGNS if campaign.seeds <= QUICK_SEEDS]


@pytest.mark.parametrize("campaign", SOON, ids=lambda campaign: campaign.rule)
def test_the_campaign_finds_it_at_that_seed(campaign: Campaign) -> None:
    assert_found(campaign)


@pytest.mark.long
@pytest.mark.parametrize("campaign", [other for other in CAMPAIGNS if other not in SOON], ids=lambda other: other.rule)
def test_the_campaign_finds_it_in_the_end_or_still_does_not(campaign: Campaign) -> None:
    assert_found(campaign)
