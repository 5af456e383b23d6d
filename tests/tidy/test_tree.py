"""The repository's own lint: what no other tool checks."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FORBIDDEN_NAMES = {"utils", "helpers", "common", "manager", "base", "misc"}


def _tracked() -> list[Path]:
    """What belongs to the project: everything git knows or would take."""
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def _sources() -> list[Path]:
    return [path for path in _tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "hightide")]


def test_modules_have_names_that_explain_themselves() -> None:
    assert [path for path in _sources() if path.stem in FORBIDDEN_NAMES] == []


@pytest.mark.parametrize("path", _sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_public_classes_say_what_they_are_for(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "no module docstring"
    if "messages" in path.parts:
        return
    silent = [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert silent == []


def test_nothing_hides_missing_work() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked()
        if path.suffix in {".py", ".md", ".toml", ".c"} and path != Path(__file__)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marks.search(line)
    ]
    assert found == []


def test_nothing_reaches_outside_the_project() -> None:
    outside = re.compile(r"\.\./shared|/work/|/root/")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _tracked()
        if path.suffix in {".py", ".md", ".toml", ".c", ".properties"} and path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if outside.search(line)
    ]
    assert found == []
