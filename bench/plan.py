"""How much to measure: one value for `make bench`, one for a smoke run."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.trials import Figure, Row

DURABILITIES = ("replicated", "fsync")
"""The goals are set for `replicated`; `fsync` is what the same broker does when every answer waits for the disk."""


@dataclass(frozen=True)
class Plan:
    """Sizes, counts and where to write."""

    directory: Path
    run_seconds: float
    rounds: int
    rounds_max: int
    part_seconds_max: float
    runs_needed: int
    starts: int
    say: Callable[[str], None]

    def repeat(self, rows: list[Row], measure: Callable[[Row], None]) -> None:
        """Round by round one run of each row, and more rounds for rows without a figure while there is time."""
        deadline = time.monotonic() + self.part_seconds_max
        for number in range(self.rounds_max):
            for row in rows:
                settled = number >= self.rounds and isinstance(row.verdict(self.runs_needed), Figure)
                if settled or (number >= self.runs_needed and time.monotonic() > deadline):
                    continue
                measure(row)


def full(directory: Path, say: Callable[[str], None]) -> Plan:
    """What `make bench` does."""
    return Plan(
        directory, run_seconds=0.8, rounds=5, rounds_max=30, part_seconds_max=300, runs_needed=3, starts=5, say=say
    )


def quick(directory: Path, say: Callable[[str], None]) -> Plan:
    """One short run of everything: shows that the bench works, and nothing about the broker."""
    return Plan(
        directory, run_seconds=0.1, rounds=1, rounds_max=1, part_seconds_max=60, runs_needed=1, starts=1, say=say
    )
