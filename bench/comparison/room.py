"""What a goal leaves for the brokers, beside what they take and what the machine takes without them.

Client and brokers share the cores of one machine. At the speed that a goal asks for the client takes a part of them,
and no broker, whatever it is written in, may take more than the rest, even if nobody ever waited for anybody. Where
that is less than the least that the work itself takes, or the client by itself is not as fast as that, no broker
reaches the goal on this machine with this client.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.machine import CORES
from bench.trials import Goal


@dataclass(frozen=True)
class Least:
    """What does the same work and nothing else: who ran it, what it measured, and how often brokers do it for each."""

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
CLIENT, LEFT, TAKEN, LEAST = "client_takes", "left", "taken", "least"
CEILING = "ceiling"


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


def room_of(figure: str, unit: str, least: Least | None, rounds: Iterable[Mapping[str, float]]) -> dict[str, Any]:
    """The medians of the rounds that count; nothing where they did not measure it."""
    known = [each for each in rounds if LEFT in each]
    if not known:
        return {}
    cost = COSTS.get(figure)
    found: dict[str, Any] = {"unit": unit if cost is None else cost.unit}
    for name in (CEILING, CLIENT, LEFT, TAKEN, LEAST):
        values = [each[name] for each in known if name in each]
        if values:
            found[name] = median(values)
    if least is not None and LEAST in found:
        found["least_is"] = least.what
    return found


def verdict(found: Mapping[str, Any], asked: float) -> str:
    """Why no broker reaches the goal here, if so; `asked` is the speed or the cost that the goal comes to."""
    if found[LEFT] < found.get(LEAST, 0.0):
        return "it leaves less than the least"
    if CEILING in found and asked > found[CEILING]:
        return "it asks more than the client does alone"
    return ""
