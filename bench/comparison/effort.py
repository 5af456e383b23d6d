"""How much the comparison measures: one value for `make bench`, one for a smoke run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bench.comparison.contests import HIGHTIDE, KAFKA

WARMUP_SECONDS = {HIGHTIDE: (4.0, 60.0), KAFKA: (30.0, 300.0)}
"""At least and at most. A JVM compiles what it has run often: three brokers took 250,000 requests until they answered
four times as many of them a second as in the beginning."""


@dataclass(frozen=True)
class Effort:
    """Sizes, counts, where to write, and how to say what is going on."""

    directory: Path
    say: Callable[[str], None]
    scale: float = 1.0  # of the bytes, messages and requests of a run
    rounds: int = 3
    rounds_max: int = 12
    runs_needed: int = 3
    extra_seconds: float = 1_200.0  # for rounds beyond `rounds`, altogether
    warmup_seconds: Mapping[str, tuple[float, float]] = field(default_factory=lambda: WARMUP_SECONDS)
    latency_seconds: float = 4.0
    latency_messages: int = 2_400  # a 99th percentile of fewer is decided by a handful
    latency_warmup_seconds: float = 1.0
    settling_seconds: float = 2.0

    def seconds_at(self, rate: int) -> float:
        """How long to send single messages at that rate."""
        return max(self.latency_seconds, self.latency_messages / rate)

    def amount(self, full: int, at_least: int = 1) -> int:
        """That many, scaled."""
        return max(int(full * self.scale), at_least)


def full(directory: Path, say: Callable[[str], None]) -> Effort:
    """What `make bench` does."""
    return Effort(directory, say)


def quick(directory: Path, say: Callable[[str], None]) -> Effort:
    """One short round of everything: shows that the bench works, and nothing about the systems."""
    return Effort(
        directory, say, scale=0.02, rounds=1, rounds_max=1, runs_needed=1, extra_seconds=0.0,
        warmup_seconds=dict.fromkeys(WARMUP_SECONDS, (0.0, 0.0)),
        latency_seconds=0.5, latency_messages=0, latency_warmup_seconds=0.2, settling_seconds=0.2,
    )  # fmt: skip
