"""Importing hightide from its sources, whether or not some modules were compiled."""

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


def is_compiled() -> bool:
    """Whether the way of a record runs compiled in this process."""
    from hightide.storage import log

    return not log.__file__.endswith(".py")
