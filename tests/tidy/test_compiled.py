"""The compiled hot path (docs/decisions/0011): it is what runs, and nothing in it means something else as C."""

import ast
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from hightide.interpreted import changed_since_compiled, is_compiled
from tools.compile_hot_path import ROOT, libraries, sources

IS_INTERPRETED = os.environ.get("HIGHTIDE_INTERPRETED") == "1"


def test_what_was_compiled_runs() -> None:
    assert is_compiled() == (bool(libraries(ROOT)) and not IS_INTERPRETED)


def test_what_runs_is_noticed_to_be_older_than_its_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert changed_since_compiled() == []
    library, source = tmp_path / "log.some-python.so", tmp_path / "log.py"
    for path, seconds in ((library, 100), (source, 200)):
        path.touch()
        os.utime(path, (time.time() + seconds, time.time() + seconds))
    module = ModuleType("hightide.elsewhere.log")
    module.__file__ = str(library)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert changed_since_compiled() == [module.__name__]


@pytest.mark.parametrize("is_interpreted", [True, False])
def test_sources_run_where_they_are_preferred(is_interpreted: bool) -> None:
    script = (
        "import sys, hightide.runtime.server, hightide.node.handlers.fetch, hightide.node.handlers.produce\n"
        "print(*(module.__file__ for name, module in sys.modules.items() if name.startswith('hightide.')), sep='\\n')"
    )
    environment = os.environ | {"HIGHTIDE_INTERPRETED": str(int(is_interpreted))}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    files = {Path(line) for line in done.stdout.splitlines()}
    expected = {ROOT / source for source in sources()} if is_interpreted else set(libraries(ROOT))
    assert {path for path in expected if path.is_relative_to(ROOT / "hightide")} - files == set()
    assert is_interpreted <= all(path.suffix == ".py" for path in files)


@pytest.mark.parametrize("source", sources(), ids=str)
def test_what_has_a_length_says_when_it_is_true(source: Path) -> None:
    """Compiled, an object is true unless its class has `__bool__`: Python would ask for its length."""
    classes = (node for node in ast.walk(ast.parse((ROOT / source).read_text())) if isinstance(node, ast.ClassDef))
    methods = {
        each.name: {member.name for member in each.body if isinstance(member, ast.FunctionDef)} for each in classes
    }
    assert [name for name, has in methods.items() if "__len__" in has and "__bool__" not in has] == []


@pytest.mark.parametrize("source", sources(), ids=str)
def test_nothing_compiled_is_a_coroutine(source: Path) -> None:
    """A compiled one that is cancelled before it began fails instead (mypyc 2.4)."""
    nodes = ast.walk(ast.parse((ROOT / source).read_text()))
    assert [node.name for node in nodes if isinstance(node, ast.AsyncFunctionDef)] == []


@pytest.mark.parametrize("source", sources(), ids=str)
def test_no_property_is_a_function_to_call(source: Path) -> None:
    """Compiled, `api.handle(x)` is what the property `handle` returns: nobody calls it (mypyc 2.4)."""
    nodes = ast.walk(ast.parse((ROOT / source).read_text()))
    properties = (
        node
        for node in nodes
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) == "property" for each in node.decorator_list)
    )
    assert [each.name for each in properties if each.returns and "Callable" in ast.unparse(each.returns)] == []
