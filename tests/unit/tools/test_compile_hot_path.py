"""When the hot path is compiled again."""

import os
import sysconfig
from pathlib import Path

import pytest

from tools.compile_hot_path import GROUP, ROOT, is_fresh, libraries, outdated, remove, sources

SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
LATER = 2**31  # than this file, which counts too
HOT, COLD, UNREAD = Path("hightide/storage/log.py"), Path("hightide/node/node.py"), Path("hightide/cli/entry.py")
CONSTANT = Path("hightide/limits.py")


def put(path: Path, seconds: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (seconds, seconds))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Sources, and what was compiled from them later."""
    for source in (*sources(), COLD, UNREAD, CONSTANT, Path("hightide/types.py")):
        put(tmp_path / source, 0)
    for library in (Path(f"{GROUP}__mypyc"), *(source.with_suffix("") for source in sources())):
        put(tmp_path / f"{library}{SUFFIX}", LATER)
    return tmp_path


def test_what_was_compiled_after_the_last_change_is_used(tree: Path) -> None:
    assert is_fresh(tree)
    put(tree / UNREAD, LATER + 1)
    assert is_fresh(tree)
    assert outdated(tree) == []


@pytest.mark.parametrize("changed", [HOT, COLD], ids=str)
def test_a_change_of_what_was_compiled_or_read_for_it_compiles_again(tree: Path, changed: Path) -> None:
    put(tree / changed, LATER + 1)
    assert not is_fresh(tree)


def test_tests_do_not_run_on_what_no_longer_fits_its_source(tree: Path) -> None:
    put(tree / HOT, LATER + 1)
    put(tree / COLD, LATER + 1)
    assert outdated(tree) == [HOT]


def test_tests_do_not_run_on_numbers_that_were_changed_since(tree: Path) -> None:
    put(tree / CONSTANT, LATER + 1)
    assert outdated(tree) == [CONSTANT]


def test_a_missing_library_or_one_of_another_python_compiles_again(tree: Path) -> None:
    library = (tree / HOT).with_suffix(SUFFIX)
    library.rename((tree / HOT).with_suffix(".another-python.so"))
    assert not is_fresh(tree)
    assert outdated(tree) == []


def test_everything_compiled_can_be_removed(tree: Path) -> None:
    assert len(libraries(tree)) == len(sources()) + 1
    remove(tree)
    assert libraries(tree) == []
    assert (tree / HOT).exists()


def test_every_module_in_the_list_exists() -> None:
    assert [source for source in sources() if not (ROOT / source).exists()] == []
