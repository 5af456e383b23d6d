"""franz-go, a client of Go programs with an engine of its own, in processes of its own (franz_go/main.go)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).resolve().parent.parent / "franz_go"
PROGRAM = Path(__file__).resolve().parents[3] / ".cache" / "franz_go"
OLDEST_GO = (1, 21)  # from then on a toolchain brings the younger one that a module asks for


class GoMissingError(Exception):
    """There is no Go that could build it; the message says what to do."""


class FranzGo:
    """The program, built when it is asked for."""

    def __init__(self) -> None:
        if shutil.which("go") is None:
            raise GoMissingError("`go` is not installed: franz-go is not tried")
        said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout
        found = re.match(r"go(\d+)\.(\d+)", said)
        if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
            raise GoMissingError(f"franz-go wants Go {OLDEST_GO[0]}.{OLDEST_GO[1]} or newer, this is {said.strip()}")
        PROGRAM.parent.mkdir(exist_ok=True)
        done = subprocess.run(["go", "build", "-o", str(PROGRAM), "."], cwd=SOURCES, capture_output=True, text=True)
        assert done.returncode == 0, f"go can't build franz-go's program: {done.stderr[-1000:]}"

    def run(self, *arguments: str) -> dict[str, Any]:
        """One command to its end: what it said."""
        done = subprocess.run([str(PROGRAM), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        result: dict[str, Any] = json.loads(done.stdout)
        return result
