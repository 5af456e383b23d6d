"""What finds a rule that is turned off: campaigns and after how many seeds, scripts, and tests that are named.

Three sources, none of them told twice: mutations.tsv for campaigns (a seed is the same run everywhere, so its numbers
are exact, and test_partition_mutations.py verifies them), the heads of tests/scripts, and the tests that
docs/concepts/reliability.md names beside what each rule forbids.

`python -m tests.simulation.mutations [seeds=60] [rule …]` runs the campaigns of those rules (of all in the file) again,
up to so many seeds, and writes it: after a change of the machines or the simulator another seed is the first to notice.
"""

import re
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from hightide.rules import ALL_ON, RULE_NAMES
from hightide.sim.seeds import Case, run_case

ROOT = Path(__file__).parents[2]
NUMBERS = Path(__file__).with_suffix(".tsv")
SCRIPTS = ROOT / "tests" / "scripts"
RELIABILITY = ROOT / "docs" / "concepts" / "reliability.md"
BLIND = "nothing"
SEEDS_MAX = 60

_OFF = re.compile(r"^off (\w+): (\w+)$", re.MULTILINE)
_EXPLAINED = re.compile(r"^\| `(r\d+_\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)
_TEST = re.compile(r"`(tests/[\w/]+\.py::\w+)`")


class Campaign(NamedTuple):
    """Without the rule the last of the first so many seeds of a world reports `finding`, those before it nothing."""

    rule: str
    world: str
    seeds: int
    finding: str

    @property
    def is_blind(self) -> bool:
        """So many seeds did not find it."""
        return self.finding == BLIND


class ScriptedTrace(NamedTuple):
    """A script that ends with `finding` when the rule is off."""

    rule: str
    path: Path
    finding: str

    @property
    def name(self) -> str:
        """As the tests are named."""
        return f"{self.path.parent.name}/{self.path.stem}"


def campaigns() -> list[Campaign]:
    """What mutations.tsv says."""
    rows = [line.split("\t") for line in NUMBERS.read_text().splitlines() if not line.startswith("#")]
    return [Campaign(rule, world, int(seeds), finding) for rule, world, seeds, finding in rows]


@cache
def scripts() -> list[ScriptedTrace]:
    """Every `off` in the head of a script."""
    return [
        ScriptedTrace(rule, path, finding)
        for path in sorted(SCRIPTS.rglob("*.txt"))
        for rule, finding in _OFF.findall(path.read_text())
    ]


@cache
def explained() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Rule → what it forbids, and the tests that notice, as the page on reliability tells."""
    found = _EXPLAINED.findall(RELIABILITY.read_text())
    return {rule: (forbids, tuple(_TEST.findall(proof))) for rule, forbids, proof in found}


def world_of(rule: str) -> str:
    """Where a rule is looked for."""
    if rule.startswith("r14_"):
        return "groups"
    return "quorum" if rule.startswith("r9_") or rule == "r17_doubtful_voters" else "partitions"


def look(rule: str, seeds: int = SEEDS_MAX) -> Campaign:
    """Run a campaign without the rule until it reports."""
    world, rules = world_of(rule), ALL_ON.without(rule)
    for seed in range(seeds):
        report = run_case(Case(world, seed, rules))
        if report.problems:
            return Campaign(rule, world, seed + 1, re.split("[: ]", report.problems[0])[0])
    return Campaign(rule, world, seeds, BLIND)


def write(known: dict[str, Campaign]) -> None:
    """Put them into the file, in the order of the rules."""
    rows = ["\t".join(map(str, known[rule])) for rule in RULE_NAMES if rule in known]
    NUMBERS.write_text("\n".join(["# rule, world, seeds until it is found, what reports it", *rows]) + "\n")


def main(arguments: list[str]) -> None:
    """Look again, and write down what was found, rule by rule."""
    seeds = SEEDS_MAX
    if arguments and arguments[0].startswith("seeds="):
        seeds = int(arguments.pop(0).removeprefix("seeds="))
    for rule in arguments or [campaign.rule for campaign in campaigns()]:
        found = look(rule, seeds)
        print(*found, flush=True)
        write({campaign.rule: campaign for campaign in campaigns()} | {rule: found})


if __name__ == "__main__":
    main(sys.argv[1:])
