"""The mutation gate of the elected quorum: each rule off in turn, and a named invariant reports it.

Random seeds are blind to some rules: figure 8 of the Raft paper needs five voters and a story. Those have a script; the
others have both. `FINDINGS` says how each is found, and after how many seeds the campaign does.
"""

from pathlib import Path
from typing import NamedTuple

import pytest

from hightide.rules import ALL_ON, RULE_NAMES
from hightide.sim.level0.raft_campaign import run_raft
from tests.simulation.raft_script import Script, parse

SCRIPTS = Path(__file__).parents[1] / "scripts" / "raft"


class Finding(NamedTuple):
    """Without `rule` the script breaks `invariant`; `seeds`: after so many the campaign does; None: it is blind."""

    rule: str
    script: str
    invariant: str
    seeds: int | None


FINDINGS = [
    Finding("r9_prevote", "prevote", "liveness", None),
    Finding("r9_durable_vote", "durable_vote", "I13", 165),
    Finding("r9_up_to_date_votes", "up_to_date", "I20", 14),
    Finding("r9_synced_ends", "synced_ends", "I20", 1),
    Finding("r9_own_epoch", "own_epoch", "I20", None),
    Finding("r9_never_resume_epoch", "never_resume", "I13", 1),
    Finding("r9_check_quorum", "check_quorum", "liveness", None),
    Finding("r9_keep_committed", "truncation_below_commit", "I10", None),
    Finding("r9_snapshots_on_boundaries", "snapshot_boundary", "I17", 13),
    Finding("r9_directory_ids", "empty_disk", "I20", 14),
    Finding("r17_doubtful_voters", "doubtful_voter", "I20", 14),
]
QUICK_SEEDS = 20  # what `make test` has patience for
SAFETY = {"I10", "I13", "I14", "I15", "I16", "I17", "I18", "I19", "I20", "I21"}


def found_by_campaign(rule: str, seeds: int) -> tuple[int, str] | None:
    """The first seed that breaks without the rule, and what breaks."""
    for seed in range(seeds):
        violation = run_raft(seed, rules=ALL_ON.without(rule)).violation
        if violation is not None:
            return seed, violation
    return None


def test_every_rule_of_the_quorum_is_looked_for() -> None:
    assert {finding.rule for finding in FINDINGS} >= {name for name in RULE_NAMES if name.startswith("r9_")}


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.rule)
def test_a_script_finds_it(finding: Finding) -> None:
    _, blocks = parse((SCRIPTS / f"{finding.script}.txt").read_text())
    kept = Script()
    kept.run(blocks)
    assert kept.violation is None
    broken = Script(ALL_ON.without(finding.rule))
    broken.run(blocks)
    assert broken.violation is not None
    assert broken.violation.name == finding.invariant


def assert_campaign_finds(finding: Finding, seeds: int) -> None:
    found = found_by_campaign(finding.rule, seeds)
    assert found is not None
    assert found[1] in SAFETY
    assert run_raft(found[0]).violation is None


@pytest.mark.parametrize(
    "finding",
    [finding for finding in FINDINGS if finding.seeds is not None and finding.seeds <= QUICK_SEEDS],
    ids=lambda finding: finding.rule,
)
def test_the_campaign_finds_it_soon(finding: Finding) -> None:
    assert_campaign_finds(finding, 5 * QUICK_SEEDS)


@pytest.mark.long
@pytest.mark.parametrize(
    "finding",
    [finding for finding in FINDINGS if finding.seeds is not None and finding.seeds > QUICK_SEEDS],
    ids=lambda finding: finding.rule,
)
def test_the_campaign_finds_it_in_the_end(finding: Finding) -> None:
    assert finding.seeds is not None
    assert_campaign_finds(finding, 5 * finding.seeds)
