"""`python -m bench [--quick] [--only PART] [--dir DIRECTORY]`, which `make bench` runs: all in under five minutes."""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench import machine
from bench.plan import Plan, full, quick
from bench.programs import BUILT, FailedError, MissingError
from bench.report import WIDTH_ELSEWHERE, Report
from bench.small_requests import SmallRequests
from bench.startup import Startup
from bench.throughput import Throughput
from bench.trials import Row

RESULTS = Path(__file__).parent.parent / "docs" / "benchmarks"
RESULT_NAME = "one-broker"
PARTS = ("throughput", "requests", "startup")


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure one broker on this machine.")
    parser.add_argument("--quick", action="store_true", help="one short run of everything: a smoke test, no figures")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure only this part; may be repeated")
    parser.add_argument("--dir", type=Path, default=BUILT / "data", help="where the brokers keep their data")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else WIDTH_ELSEWHERE)
    directory = options.dir.resolve() / f"bench-{os.getpid()}"
    directory.mkdir(parents=True)
    plan = (quick if options.quick else full)(directory, lambda text: console.print(text, highlight=False))
    started = time.monotonic()
    try:
        load = _load(console)
        rows, versions = _measure(plan, options.only or PARTS)
    except (MissingError, FailedError) as error:
        console.print(str(error), highlight=False)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    report = Report(rows, plan.runs_needed, versions, load)
    report.table(console)
    console.print(f"Took {time.monotonic() - started:.0f} s.", highlight=False)
    (BUILT / "last.json").write_text(report.json())
    if options.quick or options.only:
        console.print(
            "Part of the bench only: run by run in .bench/last.json, nothing in docs/benchmarks.", highlight=False
        )
    elif not report.has_figures:
        console.print("Not one row can be trusted: nothing was written. Run it beside nothing else.", highlight=False)
        return 1
    else:
        RESULTS.mkdir(parents=True, exist_ok=True)
        (RESULTS / f"{RESULT_NAME}.md").write_text(report.markdown())
        (RESULTS / f"{RESULT_NAME}.json").write_text(report.json())
        console.print(f"Wrote docs/benchmarks/{RESULT_NAME}.md and .json.", highlight=False)
    return 0


def _load(console: Console) -> str:
    """What the machine was doing before we began, said aloud when it was not idle."""
    with machine.watch() as seen:
        time.sleep(1.0)
    minute = os.getloadavg()[0]
    text = f"other processes using {seen.foreign_cores:.2f} cores before the start (load {minute:.2f})"
    if seen.disturbance or minute > machine.CORES / 2:
        console.print(f"This machine is busy: {text}. Disturbed runs will be left out.", highlight=False)
    return text


def _measure(plan: Plan, parts: Sequence[str]) -> tuple[list[Row], dict[str, str]]:
    rows: list[Row] = []
    versions: dict[str, str] = {}
    if "throughput" in parts:
        throughput = Throughput(plan)
        rows += throughput.measure()
        versions["librdkafka"] = throughput.library_version
    if "requests" in parts:
        rows += SmallRequests(plan).measure()
    if "startup" in parts:
        rows += Startup(plan).measure()
    return rows, versions


if __name__ == "__main__":
    sys.exit(main())
