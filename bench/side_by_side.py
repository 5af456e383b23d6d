"""The second part of `make bench`: hightide and Apache Kafka side by side, written to docs/benchmarks/kafka.*.

A full run writes the page, the document and the plots. A part writes to .bench/ only, unless it is merged: then its
rows take the places of the same rows in the document that is there.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from bench.comparison.effort import full, quick
from bench.comparison.page import markdown, print_table
from bench.comparison.plots import plots
from bench.comparison.result import Document, document, merged
from bench.comparison.run import ROWS, Comparison
from bench.programs import BUILT

NAME = "kafka"


def measure_side_by_side(
    console: Console, directory: Path, results: Path, load: str, rows: Sequence[str], *, is_quick: bool, merge: bool
) -> bool:
    """Measure, print, write; False when a row has no figure because it failed, or nothing can be trusted."""
    effort = (quick if is_quick else full)(directory, lambda text: console.print(text, highlight=False, markup=False))
    comparison = Comparison(effort, rows)
    is_complete = True
    try:
        comparison.measure()
    except KeyboardInterrupt:
        is_complete = False
        console.print("Interrupted: what was measured so far follows.", highlight=False)
    result = document(comparison.contests, effort.runs_needed, comparison.loads.library_version, load)
    print_table(result, console)
    is_whole = is_complete and not is_quick and set(rows) == set(ROWS)
    has_figures = any("ratio" in row for row in result["rows"])
    if not has_figures:
        write(BUILT, result)
        console.print("Not one row can be trusted: nothing in docs/benchmarks. Run it beside nothing else.")
    elif is_whole:
        write(results, result)
        console.print("Wrote docs/benchmarks/kafka.md, .json and plots.", highlight=False)
    elif merge and not is_quick:
        path = results / f"{NAME}.json"
        older = json.loads(path.read_text()) if path.exists() else None
        write(results, merged(older, result) if older else result)
        console.print("Merged into docs/benchmarks/kafka.md, .json and plots.", highlight=False)
    else:
        write(BUILT, result)
        console.print("The comparison in part: written to .bench/kafka.*, nothing in docs/benchmarks.", highlight=False)
    failed = any(row.get("refused", "").startswith("failed") for row in result["rows"])
    return has_figures and not failed


def write(folder: Path, result: Document) -> None:
    """The document, the page and the plots."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{NAME}.json").write_text(json.dumps(result, indent=1) + "\n")
    drawn = plots(result)
    (folder / f"{NAME}.md").write_text(markdown(result, drawn))
    for name, text in drawn.items():
        (folder / name).write_text(text)
