"""Pages of figures that carry over as they are, without a reference beside them: times to fail over, memory, CPU.

Every run is shown. A run that other processes disturbed counts, because a cluster has to do its work on any machine;
the page says how many were.
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import CORES, python_version

COLUMNS = ("what", "median", "goal", "runs (lowest-highest)", "disturbed runs")


@dataclass
class Measured:
    """One line: a number for every run, in `unit`, and what it shall not exceed."""

    title: str
    unit: str
    limit: float | None = None
    values: list[float] = field(default_factory=list)
    disturbances: list[str | None] = field(default_factory=list)

    def add(self, value: float, disturbance: str | None = None) -> None:
        """One run."""
        self.values.append(value)
        self.disturbances.append(disturbance)

    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        if not self.values:
            return (self.title, "not measured", self._goal(), "0", "")
        middle = median(self.values)
        reached = "" if self.limit is None else ", reached" if middle <= self.limit else ", missed"
        spread = f"{len(self.values)} ({self._text(min(self.values))}-{self._text(max(self.values))})"
        disturbed = sum(cause is not None for cause in self.disturbances)
        return (self.title, self._text(middle), self._goal() + reached, spread, str(disturbed or ""))

    def _goal(self) -> str:
        return "" if self.limit is None else f"at most {self._text(self.limit)}"

    def _text(self, value: float) -> str:
        match self.unit:
            case "s":
                return f"{value:.2f} s" if value >= 1 else f"{1000 * value:.0f} ms"
            case "MB":
                return f"{value:.0f} MB"
            case "cores":
                return f"{value:.3f} cores"
            case _:
                return f"{value:g} {self.unit}".rstrip()

    def document(self) -> dict[str, Any]:
        """The line for programs."""
        goal = {} if self.limit is None else {"at_most": self.limit}
        return {"what": self.title, "unit": self.unit, **goal, "runs": self.values, "disturbed_by": self.disturbances}


class Page:
    """One finished bench: printed, and written as docs/benchmarks/<name>.md and .json."""

    def __init__(
        self, name: str, introduction: str, lines: list[Measured], load: str, versions: dict[str, str]
    ) -> None:
        self._name = name
        self._introduction = introduction
        self._lines = lines
        self._load = load
        self._versions = {"python": python_version(), **versions}
        self._measured_at = datetime.now(UTC)

    def show(self, console: Console) -> None:
        """Print it."""
        table = Table(title=self._circumstances())
        for column in COLUMNS:
            table.add_column(column, overflow="fold")
        for line in self._lines:
            table.add_row(*line.cells())
        console.print(table)

    def write(self, directory: Path) -> None:
        """For people and for programs."""
        directory.mkdir(parents=True, exist_ok=True)
        text = [self._introduction, self._circumstances(), ""]
        text += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
        text += ["| " + " | ".join(line.cells()) + " |" for line in self._lines]
        (directory / f"{self._name}.md").write_text("\n".join(text) + "\n")
        document = {
            "measured_at": self._measured_at.isoformat(timespec="seconds"),
            "cores": CORES,
            "load_before": self._load,
            "versions": self._versions,
            "lines": [line.document() for line in self._lines],
        }
        (directory / f"{self._name}.json").write_text(json.dumps(document, indent=2) + "\n")

    def _circumstances(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self._versions.items())
        when = self._measured_at.strftime("%Y-%m-%d %H:%M UTC")
        return f"Measured {when} on {CORES} cores, {self._load} ({versions})."
