"""The first part of `make bench`: one broker beside what the machine itself can do, in under five minutes."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.plan import Plan, full, quick
from bench.programs import BUILT
from bench.report import Report
from bench.small_requests import SmallRequests
from bench.startup import Startup
from bench.throughput import Throughput
from bench.trials import Row

RESULT_NAME = "one-broker"
PARTS = ("throughput", "requests", "startup")


def measure_one_broker(
    console: Console, directory: Path, results: Path, load: str, parts: Sequence[str], *, is_quick: bool
) -> bool:
    """Measure, print, write; False when not one row can be trusted."""
    plan = (quick if is_quick else full)(directory, lambda text: console.print(text, highlight=False))
    rows, versions = _measure(plan, parts)
    report = Report(rows, plan.runs_needed, versions, load)
    report.table(console)
    (BUILT / "last.json").write_text(report.json())
    if is_quick or set(parts) != set(PARTS):
        console.print(
            "One broker in part: run by run in .bench/last.json, nothing in docs/benchmarks.", highlight=False
        )
    elif not report.has_figures:
        console.print("Not one row can be trusted: nothing was written. Run it beside nothing else.", highlight=False)
        return False
    else:
        results.mkdir(parents=True, exist_ok=True)
        (results / f"{RESULT_NAME}.md").write_text(report.markdown())
        (results / f"{RESULT_NAME}.json").write_text(report.json())
        console.print(f"Wrote docs/benchmarks/{RESULT_NAME}.md and .json.", highlight=False)
    return True


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
