"""The result for people (a table, a Markdown page) and for programs (JSON). No machine is named."""

import json
from datetime import UTC, datetime
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import CORES, python_version
from bench.trials import Figure, Goal, Refusal, Row

COLUMNS = ("what", "mode", "measured", "goal", "runs (range)", "beside it")
WIDTH_ELSEWHERE = 132  # of a table that goes to a file or a pipe
REACHED, MISSED = "reached", "missed"

INTRODUCTION = """\
# One broker

Written by `make bench`. Figures are medians of runs that alternate with runs of their reference on the same machine in
the same minute: librdkafka against its own in-process mock, an echo server on the broker's sockets and event loop, a
bare receive + CRC-32C + write of the same bytes; one-record requests come over 50 connections with one outstanding on
each; the first record is counted from the execution of `hightide server` to its acknowledgement. Only ratios carry over
to another machine. A row without a figure says why its runs could not be trusted. The goals are set for
`hightide.durability=replicated`.
"""


class Report:
    """One finished bench."""

    def __init__(self, rows: list[Row], runs_needed: int, versions: dict[str, str], load: str) -> None:
        self.measured_at = datetime.now(UTC)
        self._rows = rows
        self._needed = runs_needed
        self._versions = {"python": python_version(), **versions}
        self._load = load

    @property
    def has_figures(self) -> bool:
        return any(isinstance(row.verdict(self._needed), Figure) for row in self._rows)

    def table(self, console: Console) -> None:
        """Print it."""
        table = Table(title=self._circumstances())
        for column in COLUMNS:
            table.add_column(column, overflow="fold")
        for row in self._rows:
            table.add_row(*self._cells(row))
        console.print(table)
        for text in self._refusals():
            console.print(text, highlight=False)

    def markdown(self) -> str:
        """The page."""
        lines = [INTRODUCTION, self._circumstances() + "\n"]
        lines.append("| " + " | ".join(COLUMNS) + " |")
        lines.append("|" + " --- |" * len(COLUMNS))
        lines += ["| " + " | ".join(self._cells(row)) + " |" for row in self._rows]
        lines += ["", *(f"- {text}" for text in self._refusals())]
        return "\n".join(lines).rstrip() + "\n"

    def json(self) -> str:
        """Everything, run by run."""
        document = {
            "measured_at": self.measured_at.isoformat(timespec="seconds"),
            "cores": CORES,
            "load_before": self._load,
            "versions": self._versions,
            "rows": [self._row(row) for row in self._rows],
        }
        return json.dumps(document, indent=2) + "\n"

    def _circumstances(self) -> str:
        versions = ", ".join(f"{name} {version}" for name, version in self._versions.items())
        when = self.measured_at.strftime("%Y-%m-%d %H:%M UTC")
        return f"Measured {when} on {CORES} cores, {self._load} ({versions})."

    def _cells(self, row: Row) -> tuple[str, ...]:
        verdict = row.verdict(self._needed)
        head = (row.title, _mode(row))
        goal = _goal(row.goal, row.unit)
        if isinstance(verdict, Refusal):
            return (*head, "no figure", goal, str(len(row.trials)), _beside(row))
        if row.goal is not None:
            goal += f", {REACHED if row.goal.reached(verdict.value) else MISSED}"
        left_out = f", {verdict.left_out} left out" if verdict.left_out else ""
        spread = f"{verdict.runs} ({_number(verdict.low, row.unit)}-{_number(verdict.high, row.unit)}){left_out}"
        return (*head, _number(verdict.value, row.unit), goal, spread, _beside(row))

    def _refusals(self) -> list[str]:
        verdicts = [(row, row.verdict(self._needed)) for row in self._rows]
        return [
            f"No figure for {row.title}, {_mode(row)}: {verdict.reason}."
            for row, verdict in verdicts
            if isinstance(verdict, Refusal)
        ]

    def _row(self, row: Row) -> dict[str, Any]:
        verdict = row.verdict(self._needed)
        result: dict[str, Any] = {
            "what": row.title, "durability": row.durability, "acks": row.acks, "unit": row.unit
        }  # fmt: skip
        if isinstance(verdict, Figure):
            result |= {"value": verdict.value, "low": verdict.low, "high": verdict.high, "runs": verdict.runs}
        else:
            result["refused"] = verdict.reason
        if row.goal is not None:
            result["goal"] = {"limit": row.goal.limit, "at_least": row.goal.at_least}
            if isinstance(verdict, Figure):
                result["reached"] = row.goal.reached(verdict.value)
        result["trials"] = [
            {"value": trial.value, "disturbance": trial.disturbance, **trial.beside} for trial in row.trials
        ]
        return result


def _mode(row: Row) -> str:
    return f"{row.durability}, acks={row.acks}" if row.acks else row.durability


def _number(value: float, unit: str) -> str:
    match unit:
        case "share":
            return f"{value:.0%}"
        case "times":
            return f"{value:.2f}x"
        case "s":
            return f"{value:.3f} s"
        case _:
            return f"{value:.1f} {unit}"


def _goal(goal: Goal | None, unit: str) -> str:
    if goal is None:
        return ""
    return f"{'at least' if goal.at_least else 'at most'} {_number(goal.limit, unit)}"


def _beside(row: Row) -> str:
    """What the machine itself did around the runs: tells a slow minute from a slow broker."""
    words = {
        "floor_ms_mb": "write floor {:.2f} ms/MB",
        "echo_requests_s": "echo {:.0f} a second",
        "bare_interpreter_s": "bare interpreter {:.3f} s",
        "pss_mb": "PSS {:.1f} MB",
    }
    parts = []
    for key, text in words.items():
        values = [trial.beside[key] for trial in row.trials if key in trial.beside]
        if values:
            parts.append(text.format(median(values)))
    return ", ".join(parts)
