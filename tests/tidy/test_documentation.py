"""Documentation says what is there: generated pages are fresh, links lead somewhere, tests that are named exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from hightide.node.apis import BROKER_APIS, Api
from hightide.rules import RULE_NAMES
from tools.documentation import stale
from tools.protocol_pages import contract, expected_head
from tools.source_pages import turned_off_in

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
RELIABILITY = (ROOT / "docs" / "concepts" / "reliability.md").read_text()

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.(?:py|txt))(?:::(\w+))?`")
RULES = re.compile(r"^\| `(r\d+_\w+)` \| (.+?) \| (.+) \|$", re.MULTILINE)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_generated_pages_are_fresh() -> None:
    assert stale() == [], "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(FENCE.sub("", page.read_text()))
    broken = [target for target in targets if "://" not in target and not _leads_somewhere(page, target)]
    assert broken == []


def _leads_somewhere(page: Path, target: str) -> bool:
    name, _, anchor = target.partition("#")
    destination = page.parent / name if name else page
    return destination.exists() and (not anchor or anchor in _anchors(destination))


def _anchors(page: Path) -> set[str]:
    """The anchors of a page as GitHub makes them."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_tests_that_are_named_exist(page: Path) -> None:
    missing = [f"{path}::{name}" for path, name in TEST.findall(page.read_text()) if not _is_test(path, name)]
    assert missing == []


def _is_test(path: str, name: str) -> bool:
    return (ROOT / path).exists() and (not name or name in _definitions(ROOT / path))


@cache
def _definitions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text())
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    )


EXPLAINED = {
    rule: {path for path, name in TEST.findall(proof) if name or path.endswith(".txt")}
    for rule, _, proof in RULES.findall(RELIABILITY)
}


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_every_rule_is_explained_with_a_test_that_turns_it_off(rule: str) -> None:
    turning_off = set(turned_off_in(rule))
    explained = EXPLAINED.get(rule, set())
    assert explained <= turning_off, "the page names a test that leaves the rule on"
    assert bool(explained) == bool(turning_off), f"{turning_off} turns it off: the page must say what the rule forbids"


def test_no_rule_is_explained_that_does_not_exist() -> None:
    assert EXPLAINED.keys() <= set(RULE_NAMES)


@pytest.mark.parametrize("api", BROKER_APIS.values(), ids=lambda api: api.module)
def test_handlers_open_with_the_versions_they_serve(api: Api) -> None:
    assert contract(api)[0] == expected_head(api)
