"""Wheels hold the hot path compiled, wherever one is built that can compile it (docs/decisions/0011)."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

from tools.compile_hot_path import compile_into, is_fresh, libraries, missing


class CompiledHotPath(BuildHookInterface[Any]):
    """Takes what `make` compiled, or compiles a copy: a tree that is being used is left alone.

    An editable install gets nothing, its tree is compiled by `make`. Where nothing can be compiled the wheel is pure.
    """

    _scratch: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the libraries to a wheel, which is then one for this Python and this kind of machine."""
        if version == "editable" or missing() is not None:
            return
        tree = Path(self.root)
        try:
            compiled = tree if is_fresh(tree) else self._compiled_copy(tree)
        except subprocess.CalledProcessError as error:
            self.app.display_warning(f"{error.stdout}{error.stderr}\nnothing was compiled, which works, more slowly")
            return
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for library in libraries(compiled):
            build_data["force_include"][str(library)] = str(library.relative_to(compiled))

    def _compiled_copy(self, tree: Path) -> Path:
        self._scratch = tempfile.TemporaryDirectory()
        copy = Path(self._scratch.name)
        without = shutil.ignore_patterns("*.so", "__pycache__")
        shutil.copytree(tree / "hightide", copy / "hightide", ignore=without)
        compile_into(copy)
        return copy

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """The wheel is written."""
        if self._scratch is not None:
            self._scratch.cleanup()
