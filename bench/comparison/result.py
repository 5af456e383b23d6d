"""The result as one JSON document: every ratio, every round, how noisy the machine was. Page and plots are made of it.

Documents can be merged: a part that was measured again replaces its rows, and every row says when it was measured.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import log
from statistics import median
from typing import Any

from bench.comparison.contests import HIGHTIDE, KAFKA, Contest, Line
from bench.comparison.room import room_of
from bench.kafka_server import VERSION as KAFKA_VERSION
from bench.machine import CORES, congestion_control, python_version
from bench.programs import client_allocator
from bench.trials import Figure, Trial

Document = dict[str, Any]
COSTS = {"partitions": ("cpu_ms_mb", "mb_s"), "connections": ("cpu_us", "requests_s")}
"""Of each curve: the figure that is a cost, and the one that is a speed."""


def document(contests: Sequence[Contest], runs_needed: int, library: str, load: str) -> Document:
    """What a run found."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": CORES,
        "load_before": load,
        "versions": {
            "python": python_version(),
            "Kafka": KAFKA_VERSION,
            "librdkafka": library,
            "client's allocator": "tcmalloc" if client_allocator() else "the C library's",
            "congestion control": congestion_control(),
        },
        "noise": _noise(contests),
        "rows": [_row(contest, line, runs_needed) for contest in contests for line in contest.lines],
    }


def merged(older: Document, newer: Document) -> Document:
    """The older document with the newer one's rows in the places of its own; both machines must have been the same.

    A row without a figure replaces none with one. `parts` tells what was measured again, when, and how noisy it was.
    """
    fresh = {(row["what"], row["pair"][0]): row for row in newer["rows"]}
    rows = []
    for row in older["rows"]:
        again = fresh.pop((row["what"], row["pair"][0]), row)
        rows.append(row if "refused" in again and "refused" not in row else again)
    part = {
        "rows": list(dict.fromkeys(row["row"] for row in newer["rows"])),
        "measured_at": newer["measured_at"],
        "noise": newer["noise"],
    }
    return {**older, "parts": [*older.get("parts", []), part], "rows": rows + list(fresh.values())}


def growth(result: Document, curve: str) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """The curves of one kind: figure -> system -> its points, medians of the undisturbed rounds."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for row in result["rows"]:
        if row.get("curve") != curve:
            continue
        for system in (HIGHTIDE, KAFKA):
            values = [trial[system] for trial in row["trials"] if trial["disturbance"] is None and system in trial]
            if values:
                points = curves.setdefault(row["figure"], {}).setdefault(system, [])
                points.append((row["x"], median(values)))
    for systems in curves.values():
        for points in systems.values():
            points.sort()
    return curves


def steepest(points: Sequence[tuple[int, float]]) -> float | None:
    """The largest exponent between neighbours of a cost curve: 0 is flat, 1 linear, more is worse than linear."""
    steps = [
        log(after / before) / log(right / left)
        for (left, before), (right, after) in pairwise(points)
        if before > 0 and after > 0
    ]
    return max(steps) if steps else None


def _row(contest: Contest, line: Line, runs_needed: int) -> dict[str, Any]:
    verdict = line.verdict(runs_needed)
    first, second = line.pair
    row: dict[str, Any] = {
        "row": contest.row, "what": line.what, "figure": line.figure, "unit": line.unit,
        "pair": [first, second], "plotted": line.plotted, "measured_at": line.measured_at,
    }  # fmt: skip
    if line.point is not None:
        row |= {"curve": line.point.curve, "x": line.point.x}
    for name in (first, second):
        if name is not None and line.trials:
            row[name] = _median(line.trials, name)
    if isinstance(verdict, Figure):
        row |= {"ratio": verdict.value, "low": verdict.low, "high": verdict.high, "rounds": verdict.runs}
        row["left_out"] = verdict.left_out
    else:
        row["refused"] = verdict.reason
    if line.goal is not None:
        row["goal"] = {"limit": line.goal.limit, "at_least": line.goal.at_least}
        row["reached"] = isinstance(verdict, Figure) and line.goal.reached(verdict.value)
        beside = [trial.beside for trial in line.trials if trial.disturbance is None]
        found = room_of(line.figure, line.unit, line.alone, beside)
        if found:
            row["room"] = found
    row["trials"] = [
        {"value": trial.value, "disturbance": trial.disturbance, **trial.beside} for trial in line.trials
    ]  # fmt: skip
    return row


def _median(trials: Iterable[Trial], name: str) -> float:
    """Of the undisturbed rounds; of all, for the record, where every one was disturbed."""
    trials = list(trials)
    good = [trial.beside[name] for trial in trials if trial.disturbance is None]
    return median(good or [trial.beside[name] for trial in trials])


def _noise(contests: Sequence[Contest]) -> dict[str, Any]:
    """How the machine behaved: rounds left out with their causes, and how far its own write floor moved."""
    firsts = [contest.lines[0] for contest in contests if contest.lines]
    trials = [trial for line in firsts for trial in line.trials]
    causes: dict[str, int] = {}
    for trial in trials:
        if trial.disturbance is not None:
            kind = trial.disturbance.split(" used ")[0].split(" took ")[0].split(" changed ")[0].split(" sent ")[0]
            causes[kind] = causes.get(kind, 0) + 1
    floors = [trial.beside["floor_ms_mb"] for trial in trials]
    noise: dict[str, Any] = {"rounds": len(trials), "left_out": sum(causes.values()), "causes": causes}
    if floors:
        noise["floor_ms_mb"] = {"low": min(floors), "median": median(floors), "high": max(floors)}
    return noise
