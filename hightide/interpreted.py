"""Whether hightide runs compiled or from its sources, and how to make it run from its sources."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType


class SourceFinder:
    """A finder that knows of no compiled module in this package; first in `sys.meta_path`."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """What `importlib` asks every finder."""
        if path is None or not name.startswith("hightide."):
            return None
        for directory in path:
            spec = FileFinder(directory, (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name, target)
            if spec is not None:
                return spec
        return None


def prefer_sources() -> None:
    """From now on, in this process."""
    sys.meta_path.insert(0, SourceFinder)


CONSTANTS = ("limits", "types")  # modules that are not compiled, and whose numbers are in what is


def is_compiled() -> bool:
    """Whether the way of a record runs compiled in this process."""
    from hightide.storage import log

    return not log.__file__.endswith(".py")


def changed_since_compiled() -> list[str]:
    """The modules in use whose source is younger than what runs: somebody edited a tree and did not `make compile`."""
    changed = []
    newest = 0.0
    for name, module in sorted(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is None or file.endswith(".py") or not name.startswith("hightide."):
            continue
        newest = max(newest, os.path.getmtime(file))
        source = os.path.join(os.path.dirname(file), name.rpartition(".")[2] + ".py")
        if os.path.exists(source) and os.path.getmtime(source) > os.path.getmtime(file):
            changed.append(name)
    if newest:  # what is compiled has the numbers of these in it
        here = os.path.dirname(__file__)
        changed += [f"hightide.{name}" for name in CONSTANTS if os.path.getmtime(f"{here}/{name}.py") > newest]
    return changed
