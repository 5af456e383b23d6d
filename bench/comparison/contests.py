"""A contest, its rounds, and the lines that come of it.

Laws: the contestants of a round run right after each other, in alternating order, and each ratio is of two runs of one
round. A round counts for nothing where one of the two runs was disturbed, or where the write floor before and after it
says that the machine itself changed. A contest that fails says so in each of its lines, and the others go on.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bench.comparison.room import ALONE, CEILING, COSTS, DISK_ALONE, WorkAlone, ceiling, room
from bench.trials import REFERENCE_DRIFT_MAX, SPREAD_MAX, Figure, Goal, Refusal, Trial, verdict

HIGHTIDE, KAFKA = "hightide", "Kafka"
HIGHTIDE_FSYNC, KAFKA_FSYNC = "hightide fsync", "Kafka fsync"
MOCK, FLOOR = "client's mock", "floor"
WRITING, SENDING, ECHO, DISK = "writing", "sending", "echo server", "disk"
REPLICATING = "replication alone"
RUNS_OF_DOUBT = 5  # where some runs reach a goal and some do not
TAIL_SPREAD_MAX = 0.60  # a 99th percentile, or a start, is decided by few events


@dataclass(frozen=True)
class Run:
    """One run of one contestant: everything that was measured, and what disturbed it, if something did."""

    figures: Mapping[str, float]
    disturbance: str | None = None


@dataclass(frozen=True)
class Floor:
    """The machine itself, between two rounds: receive + CRC + write, and nothing else."""

    ms_mb: float
    mb_s: float
    disturbance: str | None

    def as_run(self) -> Run:
        return Run({"cpu_ms_mb": self.ms_mb, "follower_ms_mb": self.ms_mb, "mb_s": self.mb_s}, self.disturbance)


@dataclass(frozen=True)
class Point:
    """Where a line lies on a curve of growth."""

    curve: str
    x: int


@dataclass
class Line:
    """One ratio: a figure of the first of a pair over the same figure of the second, or itself without a second."""

    what: str
    figure: str
    unit: str
    pair: tuple[str, str | None] = (HIGHTIDE, KAFKA)
    goal: Goal | None = None
    alone: WorkAlone | None = None  # where the goal is to be held against what the machine takes without brokers
    client_cores: int | None = None  # where the client may run on some only
    on_disk: bool = False  # where nothing counts that the disk does not have
    spread_max: float = SPREAD_MAX
    point: Point | None = None
    plotted: bool = True
    is_timed: bool = True  # memory is what it is, whoever else runs
    trials: list[Trial] = field(default_factory=list)
    failure: str | None = None
    measured_at: str = ""

    def add(self, runs: Mapping[str, Run], before: Floor, after: Floor) -> None:
        """One round."""
        first, second = self.pair
        subject, reference = runs[first], runs[second] if second is not None else None
        value = subject.figures[self.figure]
        beside = {first: value, "floor_ms_mb": (before.ms_mb + after.ms_mb) / 2}
        if reference is not None and second is not None:
            beside[second] = reference.figures[self.figure]
            value = value / max(beside[second], 1e-12)
            if self.goal is not None and self.alone is not None:
                beside |= room(self.figure, self.goal, subject.figures, reference.figures)
                beside[ALONE] = runs[self.alone.contestant].figures[self.alone.figure] * self.alone.times
                if self.on_disk:
                    beside[DISK_ALONE] = runs[DISK].figures[self.figure]
                if self.client_cores is not None:
                    beside[CEILING] = ceiling(self.figure, subject.figures, self.client_cores)
                elif self.figure in COSTS and MOCK in runs:
                    beside[CEILING] = runs[MOCK].figures[self.figure]
        disturbance = _disturbance(subject, reference, before, after) if self.is_timed else None
        self.trials.append(Trial(value, disturbance, beside))
        self.measured_at = datetime.now(UTC).isoformat(timespec="seconds")

    def verdict(self, runs_needed: int) -> Figure | Refusal:
        """The figure, or why there is none."""
        found = verdict(self.trials, runs_needed, self.spread_max) if self.trials else Refusal("not run")
        if self.failure is not None and isinstance(found, Refusal):
            return Refusal(f"failed: {self.failure}")
        return found


def _disturbance(subject: Run, reference: Run | None, before: Floor, after: Floor) -> str | None:
    for run in (subject, reference):
        if run is not None and run.disturbance is not None:
            return run.disturbance
    drift = max(before.ms_mb, after.ms_mb) / min(before.ms_mb, after.ms_mb)
    if drift > REFERENCE_DRIFT_MAX:
        return f"the machine's speed changed {drift:.1f}-fold around the round"
    return None


@dataclass
class Contest:
    """One thing done by several contestants in turn. `row` is the name people select it by."""

    row: str
    title: str
    runners: Mapping[str, Callable[[], Run]]
    lines: list[Line]
    rounds_max: int | None = None  # where a round takes long

    def order(self, number: int) -> list[str]:
        """Who runs when: the other way round in every second round."""
        names = list(self.runners)
        return names[::-1] if number % 2 else names

    def add(self, runs: dict[str, Run], before: Floor, after: Floor) -> None:
        """Enter one round in every line."""
        runs = {**runs, FLOOR: before.as_run()}
        for line in self.lines:
            line.add(runs, before, after)

    def fail(self, reason: str) -> None:
        """Why lines without enough rounds have no figure."""
        for line in self.lines:
            line.failure = reason

    def settled(self, runs_needed: int) -> bool:
        """Whether every line with a goal has its figure beyond doubt, or the first has one where none has a goal."""
        awaited = [line for line in self.lines if line.goal is not None] or self.lines[:1]
        return all(_is_settled(line.goal, line.verdict(runs_needed)) for line in awaited)


def _is_settled(goal: Goal | None, found: Figure | Refusal) -> bool:
    if isinstance(found, Refusal):
        return False
    return goal is None or goal.reached(found.low) == goal.reached(found.high) or found.runs >= RUNS_OF_DOUBT
