"""What a goal leaves for the brokers, beside what they take and what the machine takes without them.

Client and brokers share the cores of one machine. At the speed that a goal asks for the client takes a part of them,
and no broker, whatever it is written in, may take more than the rest, even if nobody ever waited for anybody. What is
left is held against a reference: a program that does the same work by the same system calls and nothing else. It tells
how near a goal is, and proves nothing about brokers that work in another way, or with another client.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.machine import CORES
from bench.trials import Goal


@dataclass(frozen=True)
class WorkAlone:
    """What does the same work, the same way, and nothing else: who ran it, what it measured, how often it counts."""

    contestant: str
    figure: str
    what: str
    times: int = 1


@dataclass(frozen=True)
class Cost:
    """What belongs to a speed: what one of it costs brokers and client, in how many parts of a second."""

    speed: str
    brokers: str
    client: str
    unit: str
    in_a_second: float


_MEGABYTES = Cost("mb_s", "cpu_ms_mb", "client_ms_mb", "ms/MB", 1e3)
COSTS = {
    "mb_s": _MEGABYTES,
    "messages_s": _MEGABYTES,
    "requests_s": Cost("requests_s", "cpu_us", "client_us", "us", 1e6),
}
CLIENT, LEFT, TAKEN, ALONE = "client_takes", "left", "taken", "alone"
CEILING, DISK_ALONE = "ceiling", "disk_alone"


def room(figure: str, goal: Goal, subject: Mapping[str, float], reference: Mapping[str, float]) -> dict[str, float]:
    """Of one round: what the client takes, what the goal leaves for the brokers, and what they took."""
    cost = COSTS.get(figure)
    if cost is None:
        return {LEFT: goal.limit * reference[figure], TAKEN: subject[figure]}
    if cost.client not in subject:
        return {}
    left = CORES * cost.in_a_second / (goal.limit * reference[cost.speed]) - subject[cost.client]
    return {CLIENT: subject[cost.client], LEFT: left, TAKEN: subject[cost.brokers]}


def ceiling(figure: str, client: Mapping[str, float], cores: int) -> float:
    """The speed of a client that has so many cores and never waits: what each costs it is all it has to do."""
    cost = COSTS[figure]
    return client[figure] / client[cost.speed] * cores * cost.in_a_second / client[cost.client]


def room_of(figure: str, unit: str, alone: WorkAlone | None, rounds: Iterable[Mapping[str, float]]) -> dict[str, Any]:
    """The medians of the rounds that count; nothing where they did not measure it."""
    known = [each for each in rounds if LEFT in each]
    if not known:
        return {}
    cost = COSTS.get(figure)
    found: dict[str, Any] = {"unit": unit if cost is None else cost.unit}
    for name in (CEILING, DISK_ALONE, CLIENT, LEFT, TAKEN, ALONE):
        values = [each[name] for each in known if name in each]
        if values:
            found[name] = median(values)
    if alone is not None and ALONE in found:
        found["alone_is"] = alone.what
    return found


def verdict(found: Mapping[str, Any], asked: float) -> str:
    """Which reference the goal is beyond, if one; `asked` is the speed or the cost that the goal comes to."""
    if found[LEFT] < found.get(ALONE, 0.0):
        return "less than the same work alone"
    if CEILING in found and asked > found[CEILING]:
        return "more than the client alone"
    if DISK_ALONE in found and asked > found[DISK_ALONE]:
        return "more than the disk alone"
    return ""
