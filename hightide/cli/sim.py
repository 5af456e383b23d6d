"""`hightide sim`: days of bad luck in minutes, and the promises checked against every one of them."""

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count, islice
from multiprocessing import get_context
from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import Output
from hightide.cli.output import Format, Table, say, show
from hightide.cli.progress import progress
from hightide.rules import ALL_ON, RULE_NAMES, Rules
from hightide.sim.plan import FINALES
from hightide.sim.seeds import LEVELS, Case, Report, Totals, run_case, shrink

PROBLEMS_SHOWN = 5  # the first ones tell the story
TIMELINE_LINES = 120
WINDOW = 4  # cases given to a process ahead of its work


def add_to(application: typer.Typer) -> None:
    """Make it part of the command line."""
    application.command("sim")(sim)


def sim(
    seed: Annotated[int, typer.Option("--seed", help="The first seed.")] = 1,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How many seeds, in each world.")] = 1,
    minutes: Annotated[
        float | None, typer.Option("--minutes", min=0.0, help="Run seeds for that long instead.")
    ] = None,
    level: Annotated[
        int | None, typer.Option("--level", min=0, max=1, help="0: the pure machines; 1: whole nodes. Default: both.")
    ] = None,
    world: Annotated[str | None, typer.Option("--world", help=f"One world only: {', '.join(LEVELS)}.")] = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes to run seeds in.")] = 1,
    brokers: Annotated[int | None, typer.Option("--brokers", min=1, max=5, help="Level 1: how many nodes.")] = None,
    faults: Annotated[
        str | None, typer.Option("--faults", metavar="N,N,…", help="Level 1: only these faults of the seed's plan.")
    ] = None,
    disorder: Annotated[
        float | None,
        typer.Option("--disorder", min=0.0, max=1.0, help="Level 1: chance that a ready callback jumps the queue."),
    ] = None,
    finale: Annotated[
        str | None, typer.Option("--finale", help=f"Level 1: the last blow: {', '.join(FINALES)}.")
    ] = None,
    without: Annotated[
        str | None, typer.Option("--without", metavar="RULE", help="Turn a safety rule off: the campaign must find it.")
    ] = None,
    timeline: Annotated[
        bool, typer.Option("--timeline", help="Level 1: show what happened in every run, failing or not.")
    ] = False,
    shrinking: Annotated[bool, typer.Option("--shrink/--no-shrink", help="Make a failing run smaller.")] = True,
    output: Output = Format.TABLE,
) -> None:
    """Simulate clusters under faults and check every promise. The same seed gives the same run, always.

    A failing seed is shrunk and shown with its timeline; the exit code is 1 then.
    """
    rules = _rules(without)
    chosen = Case("", seed, rules, brokers, _fault_numbers(faults), disorder, _finale(finale))
    cases = _cases(chosen, _worlds(level, world), seed, None if minutes is not None else seeds)
    deadline = None if minutes is None else time.monotonic() + minutes * 60
    totals = Totals()
    began = time.monotonic()
    length = None if minutes is not None else seeds * len(_worlds(level, world))
    with progress("seeds", length, undisturbed=True) as advance:
        for report in _run(cases, jobs, deadline):
            totals.add(report)
            advance(1)
            if report.problems:
                break
            if timeline:
                print("\n".join(report.timeline), flush=True)
    for failed in totals.failed:
        if shrinking:
            say(f"seed {failed.case.seed} fails: {failed.problems[0]}; making it smaller")
        _show_failure(shrink(failed, say) if shrinking else failed)
    _show_totals(totals, time.monotonic() - began, output)
    if output is Format.TABLE and not totals.failed:
        say(f"no promise was broken; {_speed(totals)}")
    if totals.failed:
        raise typer.Exit(ExitCode.FAILED)


# ------------------------------------------------------------------ what to run


def _worlds(level: int | None, world: str | None) -> list[str]:
    if world is not None and world not in LEVELS:
        raise CommandError(f"there is no world {world!r}", ExitCode.USAGE, f"choose one of {', '.join(LEVELS)}")
    return [name for name in LEVELS if level in (None, LEVELS[name]) and world in (None, name)]


def _rules(without: str | None) -> Rules:
    if without is None:
        return ALL_ON
    if without not in RULE_NAMES:
        raise CommandError(f"there is no rule {without!r}", ExitCode.USAGE, f"choose one of {', '.join(RULE_NAMES)}")
    return ALL_ON.without(without)


def _fault_numbers(text: str | None) -> frozenset[int] | None:
    if text is None:
        return None
    try:
        return frozenset(int(part) for part in text.split(",") if part and part != "none")
    except ValueError:
        raise CommandError(f"{text!r} is not a list of numbers", ExitCode.USAGE, "write 3,7 or none") from None


def _finale(name: str | None) -> str | None:
    if name is not None and name not in FINALES:
        raise CommandError(f"there is no finale {name!r}", ExitCode.USAGE, f"choose one of {', '.join(FINALES)}")
    return name


def _cases(chosen: Case, worlds: list[str], first: int, number: int | None) -> Iterator[Case]:
    for seed in islice(count(first), number):
        for world in worlds:
            yield chosen._replace(world=world, seed=seed)


# ------------------------------------------------------------------ running


def _run(cases: Iterator[Case], jobs: int, deadline: float | None) -> Iterator[Report]:
    if deadline is not None:
        cases = _until(cases, deadline)
    if jobs == 1:
        yield from map(run_case, cases)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:  # a fork of a process with threads may hang
        pending = [pool.submit(run_case, case) for case in islice(cases, jobs * WINDOW)]
        while pending:
            report = pending.pop(0).result()
            pending += [pool.submit(run_case, case) for case in islice(cases, 1)]
            yield report


def _until(cases: Iterator[Case], deadline: float) -> Iterator[Case]:
    while time.monotonic() < deadline:
        yield next(cases)


# ------------------------------------------------------------------ showing


def _show_failure(report: Report) -> None:
    lines = [f"seed {report.case.seed} fails in the world of {report.case.world}:"]
    lines += [f"  {problem}" for problem in report.problems[:PROBLEMS_SHOWN]]
    timeline = report.timeline[-TIMELINE_LINES:]
    if len(timeline) < len(report.timeline):
        lines.append(f"  the last {TIMELINE_LINES} of {len(report.timeline)} lines of its timeline:")
    lines += [f"  {line}" for line in timeline]
    lines.append(f"run it again: {report.case.command}")
    print("\n".join(lines), flush=True)


def _speed(totals: Totals) -> str:
    """How much was simulated, and how fast."""
    hours = sum(totals.simulated_seconds.values()) / 3600
    minutes = max(sum(totals.processor_seconds.values()) / 60, 1e-9)
    return f"{hours:.2f} hours were simulated, {hours / minutes:.1f} in a minute of one processor"


def _show_totals(totals: Totals, seconds: float, output: Format) -> None:
    rows = [
        [
            world,
            totals.seeds[world],
            totals.counted[world],
            totals.acknowledged[world],
            totals.leader_changes[world],
            totals.faults[world],
            totals.events[world],
            round(totals.events[world] / max(totals.processor_seconds[world], 1e-9)),
            round(totals.simulated_seconds[world] / 3600, 2),
            round(totals.simulated_seconds[world] / max(totals.processor_seconds[world], 1e-9) / 60, 2),
            sum(report.case.world == world for report in totals.failed),
        ]
        for world in totals.seeds
    ]
    columns = [
        "WORLD", "SEEDS", "COUNTED", "ACKNOWLEDGED", "LEADER CHANGES", "FAULTS", "EVENTS", "EVENTS A SECOND",
        "SIMULATED HOURS", "HOURS A MINUTE", "FAILED",
    ]  # fmt: skip
    names = [column.lower().replace(" ", "_") for column in columns]
    show(
        output,
        document={
            "worlds": [dict(zip(names, row, strict=True)) for row in rows],
            "failed": [
                {"seed": report.case.seed, "world": report.case.world, "problems": list(report.problems)}
                for report in totals.failed
            ],
            "seconds": round(seconds, 3),
        },
        names=[str(report.case.seed) for report in totals.failed],
        tables=lambda: [Table(columns, rows)],
    )
