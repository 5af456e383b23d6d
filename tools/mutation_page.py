"""docs/reference/mutations.md: what notices when a rule is turned off, and how soon."""

from itertools import takewhile
from pathlib import Path

from hightide.rules import RULE_NAMES
from tests.simulation import mutations
from tests.simulation.test_level1_mutations import FOUND_BY_SEEDS
from tools.markdown import code, page, table

PREFACE = """\
Each rule of safety was turned off, and something noticed: a campaign of [random seeds](../concepts/simulation.md), a
scripted trace in `tests/scripts`, or a test. What reports is an invariant (I…), a checker of histories (K…) or that the
cluster is not well again after healing (liveness), never a question about the rule itself; with the rule on the same
seeds, scripts and tests pass.

*After seeds* counts from the first seed of the campaign to the one that reports; `> 25` says that so many reported
nothing, since the rule answers a story that chance does not tell: its script or test does. A seed is the same run
everywhere, so the numbers of level 0 are exact, and `tests/simulation/test_partition_mutations.py` verifies them. Whole
nodes change more often: `tests/simulation/test_level1_mutations.py` allows some more seeds than are told here. See also
[what each rule is for](../concepts/reliability.md) and [where it is kept](rules.md)."""

SCRIPTS_PREFACE = """\
Each is a text in `tests/scripts`: commands, and what happened then, which the test compares word by word."""

WORLDS = {
    "partitions": "level 0, partitions",
    "quorum": "level 0, quorum",
    "groups": "level 0, groups",
    "nodes": "level 1, one broker",
}


def mutations_page() -> str:
    """docs/reference/mutations.md"""
    explained = mutations.explained()
    rows = [
        (code(rule), explained[rule][0] if rule in explained else None, *_campaign(rule), _script(rule), _tests(rule))
        for rule in RULE_NAMES
    ]
    return page(
        "The mutation gate",
        "`tests/simulation/mutations.tsv`, the heads of `tests/scripts` and the page on reliability",
        PREFACE,
        table(["rule", "what it forbids", "campaign", "after seeds", "reports", "script", "test"], rows),
        "## The scripts",
        SCRIPTS_PREFACE,
        table(["script", "its story"], [(code(_name(path)), _story(path)) for path in _scripts()]),
    )


def _scripts() -> list[Path]:
    return sorted(mutations.SCRIPTS.rglob("*.txt"))


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def _story(path: Path) -> str:
    """The comment that a script opens with."""
    head = takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    return " ".join(line.lstrip("# ") for line in head)


def _campaign(rule: str) -> tuple[str, str, str]:
    """Which campaigns were asked, after how many seeds they found it, and what reported it; a line for each."""
    lines = [
        (WORLDS[found.world], f"> {found.seeds}", "nothing") if found.is_blind
        else (WORLDS[found.world], str(found.seeds), found.finding)
        for found in mutations.campaigns()
        if found.rule == rule
    ]  # fmt: skip
    if rule in FOUND_BY_SEEDS:
        lines.append((WORLDS["nodes"], f"≈ {FOUND_BY_SEEDS[rule]}", "K… or liveness"))
    campaigns, seeds, findings = zip(*lines, strict=True) if lines else ((), (), ())
    return "<br>".join(campaigns), "<br>".join(seeds), "<br>".join(findings)


def _script(rule: str) -> str | None:
    return "<br>".join(f"{code(trace.name)} ({trace.finding})" for trace in mutations.scripts() if trace.rule == rule)


def _tests(rule: str) -> str | None:
    _, tests = mutations.explained().get(rule, ("", ()))
    return "<br>".join(map(code, tests))
