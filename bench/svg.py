"""Small plots as SVG text: horizontal bars on a logarithmic scale, and lines over logarithmic axes. No dependency.

Colours and fonts work on light and on dark pages: the plot brings its own light ground.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

FONT = 'font-family="system-ui, sans-serif"'
INK, FAINT, GROUND = "#1f2933", "#d5dbe1", "#ffffff"
GOOD, BAD, NEUTRAL = "#0b7a75", "#c2410c", "#64748b"
COLOURS = ("#0b7a75", "#c2410c", "#64748b", "#7c3aed")
BAR_HEIGHT, BAR_GAP, PLOT_WIDTH, MARGIN = 14, 8, 420, 20
NUMBER_WIDTH = 36
LETTER_WIDTH = 6.6  # of labels and legends, a little more than fonts take on average
LEGEND_GAP, LEGEND_LINE = 40, 18
CURVE_WIDTH, CURVE_HEIGHT = 380, 240


@dataclass(frozen=True)
class Bar:
    """One bar from 1 to `value`; `goal` is marked; `colour` says how it went."""

    label: str
    value: float
    goal: float | None
    colour: str


@dataclass(frozen=True)
class Chart:
    """One chart of lines: series by name, each a list of points."""

    title: str
    x_label: str
    series: Mapping[str, Sequence[tuple[float, float]]]


def bars(title: str, entries: Sequence[Bar]) -> str:
    """Bars that grow from 1, to the right above it and to the left below."""
    values = [entry.value for entry in entries] + [entry.goal for entry in entries if entry.goal]
    low, high = _decades([*values, 1.0])
    left = MARGIN + max(len(entry.label) for entry in entries) * LETTER_WIDTH + NUMBER_WIDTH
    top = MARGIN + 40
    height = top + len(entries) * (BAR_HEIGHT + BAR_GAP) + 30

    def x(value: float) -> float:
        return left + (log10(value) - low) / (high - low) * PLOT_WIDTH

    parts = [_text(MARGIN, MARGIN + 6, title, size=15, bold=True)]
    for value in _ticks(low, high):
        parts.append(_line(x(value), top - 8, x(value), height - 30, FAINT if value != 1 else INK))
        parts.append(_text(x(value), height - 12, f"{value:g}x", anchor="middle", size=11))
    for number, entry in enumerate(entries):
        y = top + number * (BAR_HEIGHT + BAR_GAP)
        start, end = sorted((x(1.0), x(entry.value)))
        parts.append(_text(left - NUMBER_WIDTH, y + BAR_HEIGHT - 3, entry.label, anchor="end", size=11))
        parts.append(
            f'<rect x="{start:.1f}" y="{y}" width="{max(end - start, 1):.1f}" height="{BAR_HEIGHT}"'
            f' fill="{entry.colour}"/>'
        )
        mark = x(entry.goal) if entry.goal else x(1.0)
        is_right = entry.value >= 1
        tip = end if is_right else start
        if 0 <= (mark - tip) * (1 if is_right else -1) <= NUMBER_WIDTH:
            tip = mark  # the number lies behind the goal's mark where they would meet
        beside, anchor = (tip + 5, "start") if is_right else (tip - 5, "end")
        parts.append(_text(beside, y + BAR_HEIGHT - 3, f"{entry.value:.2f}x", anchor=anchor, size=10))
        if entry.goal:
            parts.append(_line(mark, y - 3, mark, y + BAR_HEIGHT + 3, INK, width=2))
    return _document(left + PLOT_WIDTH + 70, height, parts)


def curves(title: str, charts: Sequence[Chart]) -> str:
    """Charts beside each other, both axes logarithmic."""
    parts = [_text(MARGIN, MARGIN + 6, title, size=15, bold=True)]
    step = CURVE_WIDTH + 110
    for number, chart in enumerate(charts):
        parts += _chart(chart, MARGIN + 60 + number * step, MARGIN + 50)
    return _document(MARGIN + len(charts) * step + 20, MARGIN + 50 + CURVE_HEIGHT + 60, parts)


def _chart(chart: Chart, left: float, top: float) -> list[str]:
    points = [point for series in chart.series.values() for point in series]
    x_low, x_high = _decades([point[0] for point in points])
    y_low, y_high = _decades([point[1] for point in points])

    def place(point: tuple[float, float]) -> tuple[float, float]:
        across = (log10(point[0]) - x_low) / (x_high - x_low)
        up = (log10(point[1]) - y_low) / (y_high - y_low)
        return left + across * CURVE_WIDTH, top + (1 - up) * CURVE_HEIGHT

    parts = [_text(left, top - 12, chart.title, size=12, bold=True)]
    for value in _ticks(x_low, x_high, every=1):
        x, _ = place((value, 10**y_low))
        parts.append(_line(x, top, x, top + CURVE_HEIGHT, FAINT))
        parts.append(_text(x, top + CURVE_HEIGHT + 16, f"{value:,.0f}", anchor="middle", size=11))
    for value in _ticks(y_low, y_high):
        _, y = place((10**x_low, value))
        parts.append(_line(left, y, left + CURVE_WIDTH, y, FAINT))
        parts.append(_text(left - 6, y + 4, f"{value:,g}", anchor="end", size=11))
    parts.append(_text(left + CURVE_WIDTH / 2, top + CURVE_HEIGHT + 34, chart.x_label, anchor="middle", size=11))
    for number, series in enumerate(chart.series.values()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, series))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in map(place, series)]
    return parts + _legend(list(chart.series), left + CURVE_WIDTH, top - 12)


def _legend(names: Sequence[str], right: float, y: float) -> list[str]:
    """Above the chart, where no line comes."""
    parts = []
    for number in reversed(range(len(names))):
        name, colour = names[number], COLOURS[number % len(COLOURS)]
        start = right - len(name) * LETTER_WIDTH
        parts.append(_text(start, y, name, size=11))
        parts.append(_line(start - 6 - LEGEND_LINE, y - 4, start - 6, y - 4, colour, width=2))
        right = start - LEGEND_GAP
    return parts


def _decades(values: Sequence[float]) -> tuple[float, float]:
    """The axis from power of ten to power of ten, in thirds of a decade, never empty."""
    low = floor(log10(min(values)) * 3 - 0.2) / 3
    high = ceil(log10(max(values)) * 3 + 0.2) / 3
    return low, max(high, low + 1 / 3)


def _ticks(low: float, high: float, every: int = 3) -> list[float]:
    """1, 2, 5 and their tenfolds between the ends; `every=1` only the powers of ten."""
    factors = (1, 2, 5) if every == 3 else (1,)
    found = [factor * 10.0**power for power in range(floor(low), ceil(high) + 1) for factor in factors]
    return [value for value in found if low - 1e-9 <= log10(value) <= high + 1e-9]


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, bold: bool = False) -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}"{weight} text-anchor="{anchor}" fill="{INK}">'
        f"{escape(text)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, width: int = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'
    )  # fmt: skip


def _document(width: float, height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" {FONT}>'
    ground = f'<rect width="100%" height="100%" fill="{GROUND}"/>'
    return "\n".join([head, ground, *parts, "</svg>"]) + "\n"
