"""Limits and rules as pages, read from their source: the reasons are in its comments, the uses in the other files."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hightide import limits
from hightide.rules import RULE_NAMES
from tests.simulation import mutations
from tools.markdown import code, page, table

ROOT = Path(__file__).parent.parent
LIMITS = ROOT / "hightide" / "limits.py"
MUTATION_GATE = ROOT / "tests" / "simulation" / "test_partition_mutations.py"
UNITS = {"KIB", "MIB"}

RULES_PREFACE = """\
Every rule of safety is a field of `Rules`, on in production, and asked where it is kept. The tests that turn it off see
something break; [reliability](../concepts/reliability.md) tells what each forbids and which test notices."""


def limits_page() -> str:
    """docs/reference/limits.md"""
    blocks = []
    for heading, entries in _sections(LIMITS.read_text()):
        title, _, remark = heading.partition(". ")
        blocks.append(f"## {title.rstrip('.')}")
        if remark:
            blocks.append(remark)
        rows = [(code(name), shown(getattr(limits, name), name), reason) for name, reason in entries]
        blocks.append(table(["limit", "value", "why"], rows))
    return page("Limits", "`hightide/limits.py`, comments included", *blocks)


def shown(value: float, name: str) -> str:
    """A value with its unit, which is in its name."""
    if "BYTES" in name and isinstance(value, int):
        for unit, size in (("MiB", limits.MIB), ("KiB", limits.KIB)):
            if value >= size and value % size == 0:
                return f"{value // size} {unit}"
        return f"{value:,} bytes"
    return f"{value:g} s" if "SECONDS" in name else f"{value:,}"


def _sections(source: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Heading comment and (name, reason) of each group of assignments."""
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    heading = ""
    entries: list[tuple[str, str]] = []
    for node in ast.parse(source).body:
        target = _assigned(node)
        if target is None:
            continue
        above = comments.get(node.lineno - 1)
        if above is not None and source.splitlines()[node.lineno - 2].startswith("#"):
            if entries:
                yield heading, entries
            heading, entries = above, []
        if target not in UNITS:
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            entries.append((target, " ".join(comments[line] for line in lines if line in comments)))
    yield heading, entries


def _assigned(node: ast.stmt) -> str | None:
    """The name that a statement gives a value, annotated or not."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def rules_page() -> str:
    """docs/reference/rules.md"""
    rows = [(code(rule), _list(_asking(rule)), _list(turned_off_in(rule))) for rule in RULE_NAMES]
    return page(
        "Rules",
        "`hightide/rules.py` and the files that name each rule",
        RULES_PREFACE,
        table(["rule", "kept in", "turned off by"], rows),
    )


def turned_off_in(rule: str) -> list[str]:
    """The tests and scripts that name a rule to turn it off; the mutation gate does so where campaigns find it."""
    tests = [path for path, text in _texts("tests").items() if path.parts[-2] != "tidy" and f'"{rule}"' in text]
    scripts = [trace.path for trace in mutations.scripts() if trace.rule == rule]
    gate = [MUTATION_GATE for found in mutations.campaigns() if found.rule == rule and not found.is_blind]
    return sorted(str(path.relative_to(ROOT)) for path in {*tests, *scripts, *gate})


def _asking(rule: str) -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for path, text in _texts("hightide").items()
        if "messages" not in path.parts and re.search(rf"\.{rule}\b", text)
    ]


@cache
def _texts(folder: str) -> dict[Path, str]:
    return {path: path.read_text() for path in sorted((ROOT / folder).rglob("*.py"))}


def _list(names: list[str]) -> str:
    return "<br>".join(map(code, names))
