"""Rows, their runs, and when a row may be believed.

Laws: a run that something disturbed, or around which the reference itself changed, counts for nothing. A row prints a
figure only with enough runs left that agree with each other; otherwise it says why it prints none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from statistics import median, quantiles

REFERENCE_DRIFT_MAX = 1.5  # between the reference runs before and after: the machine changed its speed meanwhile
SPREAD_MAX = 0.30  # of the middle half of three runs, as a share of the median
SPREAD_RUNS = 3
"""More runs may spread more: how well their median is known grows with the square root of their number."""


@dataclass(frozen=True)
class Trial:
    """One run. `value` is what the row speaks of; `beside` is what was measured around it, for the record."""

    value: float
    disturbance: str | None = None
    beside: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    """What a row shall reach."""

    limit: float
    at_least: bool

    def reached(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit


@dataclass(frozen=True)
class Figure:
    """The median of the runs that count, and their range."""

    value: float
    low: float
    high: float
    runs: int
    left_out: int


@dataclass(frozen=True)
class Refusal:
    """Why a row has no figure."""

    reason: str


@dataclass
class Row:
    """One line of the result. `unit` is "share", "times", "s" or "MB"."""

    title: str
    durability: str
    acks: str
    unit: str
    goal: Goal | None = None
    trials: list[Trial] = field(default_factory=list)

    def verdict(self, runs_needed: int) -> Figure | Refusal:
        return verdict(self.trials, runs_needed)


def verdict(trials: Sequence[Trial], runs_needed: int, spread_max: float = SPREAD_MAX) -> Figure | Refusal:
    """What the runs of a row say together."""
    good = [trial.value for trial in trials if trial.disturbance is None]
    left_out = len(trials) - len(good)
    if len(good) < runs_needed:
        causes = [trial.disturbance for trial in trials if trial.disturbance is not None]
        last = f" (the last: {causes[-1]})" if causes else ""
        return Refusal(f"{len(good)} of {len(trials)} runs undisturbed, {runs_needed} needed{last}")
    middle = median(good)
    if len(good) > 1:
        low, _, high = quantiles(good, n=4, method="inclusive")
        if high - low > spread_max * sqrt(max(len(good), SPREAD_RUNS) / SPREAD_RUNS) * middle:
            return Refusal(f"the middle half of {len(good)} runs spreads over {(high - low) / middle:.0%}")
    return Figure(middle, min(good), max(good), len(good), left_out)


def compared(
    subject: float, before: float, after: float, disturbances: list[str | None], beside: dict[str, float]
) -> Trial:
    """A run as a share of the mean of the reference runs on both sides of it."""
    disturbance = next((cause for cause in disturbances if cause is not None), None)
    drift = max(before, after) / min(before, after)
    if disturbance is None and drift > REFERENCE_DRIFT_MAX:
        disturbance = f"the machine's speed changed {drift:.1f}-fold around the run"
    return Trial(subject / ((before + after) / 2), disturbance, beside)
