"""The plots of a result: all ratios to Kafka as bars with their goals, and the curves of growth."""

from typing import Any

from bench import svg
from bench.comparison.contests import KAFKA
from bench.comparison.result import COSTS, Document, growth

TITLE = "hightide to Apache Kafka: a mark is a goal, green reached it, orange is worse than the goal or than Kafka"
HIGHER_IS_BETTER = {"mb_s", "messages_s", "requests_s"}
FIGURE_NAMES = {
    "mb_s": "throughput, MB/s",
    "cpu_ms_mb": "broker CPU, ms per MB",
    "requests_s": "requests per second",
    "cpu_us": "broker CPU, us per request",
}


def plots(result: Document) -> dict[str, str]:
    """File name -> SVG, for everything this result has enough of."""
    files = {}
    ratios = [row for row in result["rows"] if _is_ratio(row)]
    for name, rows in (("kafka-goals.svg", [row for row in ratios if "goal" in row]), ("kafka-ratios.svg", ratios)):
        if rows:
            files[name] = svg.bars(TITLE, [_bar(row) for row in rows])
    for curve, (cost, speed) in COSTS.items():
        found = growth(result, curve)
        charts = [svg.Chart(FIGURE_NAMES[name], curve, found[name]) for name in (speed, cost) if name in found]
        if charts:
            files[f"kafka-{curve}.svg"] = svg.curves(f"Growth with {curve}", charts)
    return files


def _is_ratio(row: dict[str, Any]) -> bool:
    second = row["pair"][1]
    return "ratio" in row and row["plotted"] and second is not None and second.startswith(KAFKA) and row["ratio"] > 0


def _bar(row: dict[str, Any]) -> svg.Bar:
    if "goal" in row:
        return svg.Bar(row["what"], row["ratio"], row["goal"]["limit"], svg.GOOD if row["reached"] else svg.BAD)
    is_better = (row["ratio"] >= 1) == (row["figure"] in HIGHER_IS_BETTER)
    return svg.Bar(row["what"], row["ratio"], None, svg.NEUTRAL if is_better else svg.BAD)
