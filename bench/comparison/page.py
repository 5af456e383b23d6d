"""The result for people: the tables on the terminal and the Markdown page. No machine is named."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.comparison.contests import FLOOR, HIGHTIDE, KAFKA
from bench.comparison.result import COSTS, Document, growth, steepest
from bench.comparison.room import ALONE, CEILING, CLIENT, DISK_ALONE, LEFT, TAKEN, verdict

COLUMNS = ("what", "hightide", "beside it", "ratio", "goal", "rounds (range)")
ROOM_COLUMNS = (
    "goal missed", "it asks for", "client alone", "disk alone", "client takes", "it leaves", "taken",
    "same work alone", "it is",
)  # fmt: skip
SECTIONS = {
    "startup": "Start-up and memory",
    "produce": "Produce, one broker",
    "consume": "Consume, one broker",
    "requests": "One-record requests, one broker",
    "connections": "More connections",
    "latency": "Latency at fixed rates, one broker",
    "partitions": "More partitions",
    "perf-test": "A second opinion: Kafka's own client and program",
    "three-throughput": "Throughput, three brokers",
    "three-requests": "One-record requests, three brokers",
    "three-latency": "Latency at fixed rates, three brokers",
    "catch-up": "Catch-up",
    "failover": "Failover",
}

INTRODUCTION = """\
# hightide and Apache Kafka side by side

Written by `make bench`: both systems on the same machine, driven by the same client with the same settings, warm, in
one run. Rounds alternate between them, a ratio is of two runs of one round, a figure is the median of at least three
rounds that nothing disturbed. A ratio above 1 means more of the thing named: good for throughput, bad for CPU, time and
memory. Only ratios carry over to another machine. A row without a figure says why its runs could not be trusted. The
same, round by round, is in [kafka.json](kafka.json).

Both run on loopback beside the client, with page-cache durability unless a row says fsync (hightide:
`hightide.durability=replicated` or `fsync` on the topic; Kafka: its default, or `flush.messages=1`). Kafka runs KRaft
with its default settings, heap and JVM flags; on both systems deleted files go at once, so that no run pays for the one
before it. Load comes from librdkafka (throughput, consume, latency), from a sender of prepared requests (of one record,
or ready-made batches) with one outstanding on each connection, acks=all, and from kafka-producer-perf-test. Three
brokers: RF 3, acks=all, `min.insync.replicas=2`. CPU is that of all brokers' processes together; with fsync, hightide
has the kernel's threads write back, whose time is in no figure here. lz4 payloads are half random. The client's ceiling
is librdkafka against the broker inside itself. Full batches are produced with 30,000 and with 200,000 messages allowed
to wait in the client, single messages are timed with its threads on any core and on one, and each system counts with
what suits it better; the floor is a bare receive + CRC-32C + write of the same bytes. The brokers' sockets have the
congestion control that the page names; hightide's own are never paced on one machine, and neither are the clients' of
the bench, whichever system they talk to.
"""


MISSED = """\
Client and brokers share the cores of this machine. At the speed that a goal asks for the client takes its part of
them, and brokers may take no more than the rest, even if nobody ever waited for anybody: that is what a goal of
throughput leaves for each MB or request. A goal of CPU or latency leaves its share of what Kafka took. "Same work
alone" is a program that makes hightide's system calls, the blocks made ready ahead of its writes included, and nothing
else; "client alone" is how fast the client is against the broker inside itself, or as fast as its own CPU time lets it
be where the bench keeps it on one core; "disk alone" is what each of three writers gets onto the disk when all sync all
the time and go on writing meanwhile. Medians of the rounds that count. A goal beyond one of these is out of sight for a
broker that works this way, with this client and disk."""


def print_table(result: Document, console: Console) -> None:
    """The terminal's form: the rows with goals, or all where none has one. The page has everything."""
    shown = _with_goals(result) if any("goal" in row for row in result["rows"]) else result
    table = Table(title=circumstances(result))
    for column in COLUMNS:
        table.add_column(column, overflow="fold")
    for _, rows in _sections(shown):
        table.add_section()
        for row in rows:
            table.add_row(*_cells(row))
    console.print(table)
    for text in [*_refusals(shown), *growth_sentences(result), noise(result["noise"]), summary(result)]:
        console.print(text, highlight=False, markup=False)


def markdown(result: Document, plot_names: Iterable[str] = ()) -> str:
    """The page, with the plots that lie beside it."""
    lines = [INTRODUCTION, circumstances(result), "", noise(result["noise"]), ""]
    for part in result.get("parts", []):
        lines += [measured_again(part), ""]
    lines += [summary(result), ""]
    sections = [(SECTIONS[name], rows) for name, rows in _sections(result)]
    for title, rows in [("Goals", _with_goals(result)["rows"]), *sections]:
        lines += [f"## {title}", "", "| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
        lines += ["| " + " | ".join(_cells(row)) + " |" for row in rows]
        lines.append("")
    lines += _missed(result)
    lines += ["## Plots", ""]
    for name in plot_names:
        lines += [f"![{name.removesuffix('.svg').replace('-', ' ')}]({name})", ""]
    sentences = growth_sentences(result)
    if sentences:
        lines += ["## Growth", "", *(f"- {text}" for text in sentences), ""]
    refusals = _refusals(result)
    if refusals:
        lines += ["## Rows without a figure", "", *(f"- {text}" for text in refusals), ""]
    return "\n".join(lines).rstrip() + "\n"


def _missed(result: Document) -> list[str]:
    """The goals that were missed, beside what the machine allows."""
    rows = [row for row in result["rows"] if not row.get("reached", True) and "room" in row]
    if not rows:
        return []
    lines = ["## What the missed goals leave", "", MISSED, "", "| " + " | ".join(ROOM_COLUMNS) + " |"]
    lines.append("|" + " --- |" * len(ROOM_COLUMNS))
    return [*lines, *("| " + " | ".join(_room_cells(row)) + " |" for row in rows), ""]


def _room_cells(row: dict[str, Any]) -> tuple[str, ...]:
    found = row["room"]
    left, taken = (_number(found[name], found["unit"]) for name in (LEFT, TAKEN))
    client = _number(found[CLIENT], found["unit"]) if CLIENT in found else ""
    same = f"{_number(found[ALONE], found['unit'])} ({found['alone_is']})" if ALONE in found else ""
    left = "nothing" if found[LEFT] <= 0 else left
    asked = row["goal"]["limit"] * row[row["pair"][1]]
    alone, disk = (_number(found[name], row["unit"]) if name in found else "" for name in (CEILING, DISK_ALONE))
    return (row["what"], _number(asked, row["unit"]), alone, disk, client, left, taken, same, verdict(found, asked))


def circumstances(result: Document) -> str:
    """When, on how many cores, beside what load, with which versions."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if version)
    when = _minute(result["measured_at"])
    return f"Measured {when} UTC on {result['cores']} cores, {result['load_before']} ({versions})."


def measured_again(part: Document) -> str:
    """Which rows are not of the same run as the rest, and how far the machine could be trusted then."""
    rows = ", ".join(part["rows"])
    return f"Measured again {_minute(part['measured_at'])} UTC, where it gave a figure: {rows}. {noise(part['noise'])}"


def _minute(instant: str) -> str:
    return instant.replace("T", " ")[:16]


def noise(seen: dict[str, Any]) -> str:
    """How far the machine can be trusted."""
    causes = ", ".join(f"{cause} ({count})" for cause, count in seen["causes"].items())
    text = f"{seen['left_out']} of {seen['rounds']} rounds were left out{': ' + causes if causes else ''}."
    if "floor_ms_mb" in seen:
        floor = seen["floor_ms_mb"]
        text += (
            f" The machine's write floor was {floor['median']:.2f} ms/MB and moved between {floor['low']:.2f} and"
            f" {floor['high']:.2f} meanwhile."
        )
    return text


def summary(result: Document) -> str:
    """How many goals were reached."""
    goals = [row for row in result["rows"] if "goal" in row]
    reached = sum(row["reached"] for row in goals)
    without = sum("refused" in row for row in goals)
    return f"{reached} of {len(goals)} goals reached, {without} without a figure."


def growth_sentences(result: Document) -> list[str]:
    """Whether anything costs more than in proportion."""
    sentences = []
    for curve, (cost, _) in COSTS.items():
        for system, points in growth(result, curve).get(cost, {}).items():
            exponent = steepest(points)
            if exponent is not None:
                ends = f"{_number(points[0][1], _unit(result, cost))} to {_number(points[-1][1], _unit(result, cost))}"
                judged = "worse than linear" if exponent > 1 else "not worse than linear"
                sentences.append(
                    f"{system}: {points[0][0]} to {points[-1][0]:,} {curve} changed its CPU from {ends}; the steepest"
                    f" step has the exponent {exponent:.2f}, {judged}."
                )
    return sentences


def _unit(result: Document, figure: str) -> str:
    return next(str(row["unit"]) for row in result["rows"] if row["figure"] == figure)


def _with_goals(result: Document) -> Document:
    return {**result, "rows": [row for row in result["rows"] if "goal" in row]}


def _sections(result: Document) -> list[tuple[str, list[dict[str, Any]]]]:
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in result["rows"]:
        grouped.setdefault(row["row"], []).append(row)
    return [(name, grouped[name]) for name in SECTIONS if name in grouped]


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    first, second = row["pair"]
    own = _number(row[first], row["unit"]) if first in row else ""
    beside = f"{second} {_number(row[second], row['unit'])}" if second is not None and second in row else ""
    if first == KAFKA:
        own, beside = "", f"{KAFKA} {own}, {beside}"
    if "refused" in row:
        return (row["what"], own, beside, "no figure", _goal(row), str(len(row["trials"])))
    left_out = f", {row['left_out']} left out" if row["left_out"] else ""
    spread = f"{row['rounds']} ({_ratio(row, row['low'])}-{_ratio(row, row['high'])}){left_out}"
    return (row["what"], own, beside, _ratio(row, row["ratio"]), _goal(row), spread)


def _ratio(row: dict[str, Any], value: float) -> str:
    second = row["pair"][1]
    if second is None:
        return _number(value, row["unit"])
    if second in (KAFKA, FLOOR) or second.startswith(KAFKA):
        return f"{value:.2f}x"
    return f"{value:.0%}"


def _goal(row: dict[str, Any]) -> str:
    if "goal" not in row:
        return ""
    words = "at least" if row["goal"]["at_least"] else "at most"
    outcome = "reached" if row["reached"] else ("no figure" if "refused" in row else "missed")
    return f"{words} {_ratio(row, row['goal']['limit'])}, {outcome}"


def _refusals(result: Document) -> list[str]:
    return [
        f"No figure for {row['what']}{'' if row['pair'][0] == HIGHTIDE else ' (' + row['pair'][0] + ')'}:"
        f" {row['refused'].rstrip('.')}."
        for row in result["rows"]
        if "refused" in row
    ]


def _number(value: float, unit: str) -> str:
    if unit == "us" and value >= 10_000:
        return f"{value / 1e3:,.0f} ms"
    if unit == "messages/s" and value >= 1e6:
        return f"{value / 1e6:.2f} M/s"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{text} {unit}"
