"""What will go wrong in a run, decided before it begins: a pure function of the seed.

A plan is plain data, so a failing one can be made smaller and run again: without some faults, with fewer nodes, in
asyncio's own order. Every fault has a random stream of its own, named by its number, so that leaving one out does not
change the others.
"""

from random import Random
from typing import NamedTuple

DURATION_SECONDS = 60.0  # of faults; healing and the final checks follow
PERIOD_SECONDS = (2.0, 8.0)
QUIET_SHARE = 0.25  # of the periods have no fault
FAULT_SECONDS = (0.2, 8.0)
DISORDERS = (0.0, 0.05, 0.3, 1.0)
BROKERS = (1, 3, 3, 3, 5)
BUSY_SHARE, BUSY_SECONDS = 0.25, 0.02  # of the plans have processes that look at their connections only now and then,
PRODUCERS, BUSY_PRODUCERS = 2, 6  # and many producers: what came meanwhile is served together
FINALES = ("none", "restart", "kill", "power loss")

# How often each is drawn, whatever the number of nodes: a plan of three can be shrunk to one. What makes processes die
# counts most: that is where promises are kept or broken.
KINDS = {
    "kill": 6,
    "power loss": 6,
    "kill everywhere": 1,
    "power loss everywhere": 2,
    "pause": 3,
    "pause and kill": 2,
    "restart": 3,
    "rolling restart": 1,
    "crash": 6,
    "crash in recovery": 4,
    "cut": 3,
    "one-way cut": 3,
    "node cut": 2,
    "ring": 1,
    "split": 3,
    "client cut": 1,
    "slow network": 1,
    "lossy network": 1,
    "held messages": 2,
    "reset": 3,
    "clock step": 2,
    "clock drift": 1,
    "clock freeze": 1,
    "disk full": 2,
    "slow sync": 3,
    "failed sync": 2,
    "failed write": 2,
    "failed read": 1,
    "empty disk": 2,
    "bit flip": 2,
    "stale block": 1,
    "misdirected write": 1,
    "short file": 1,
    "join": 2,
    "leader election": 2,
}


class Fault(NamedTuple):
    """Something that goes wrong at a time, for a time. Whom it hits is drawn when it comes."""

    number: int
    at: float
    seconds: float
    kind: str

    def __str__(self) -> str:
        return f"{self.number}: {self.kind} at {self.at:.1f} s for {self.seconds:.1f} s"


class Plan(NamedTuple):
    """One run."""

    seed: int
    brokers: int
    disorder: float
    faults: tuple[Fault, ...]
    finale: str
    """What happens to all nodes after healing, right before everything is read."""
    topic: tuple[tuple[str, str], ...]
    """Settings of the topic."""
    partitions: int
    duration: float = DURATION_SECONDS
    busy_seconds: float = 0.0
    """How long processes are busy at most before they look at what has come for them."""

    @property
    def producers(self) -> int:
        """How many there are."""
        return BUSY_PRODUCERS if self.busy_seconds else PRODUCERS

    def only(self, numbers: frozenset[int]) -> "Plan":
        """The same with these faults alone."""
        return self._replace(faults=tuple(fault for fault in self.faults if fault.number in numbers))


def make_plan(seed: int, brokers: int | None = None, duration: float = DURATION_SECONDS) -> Plan:
    """The plan of a seed; it decides about the number of brokers too, unless told."""
    if brokers is None:
        brokers = Random(f"{seed}:brokers").choice(BROKERS)
    random = Random(f"{seed}:plan")
    return Plan(
        seed,
        brokers,
        random.choice(DISORDERS),
        tuple(_faults(random, duration)),
        random.choice(FINALES),
        _topic(random, brokers),
        random.randrange(1, 5),
        duration,
        BUSY_SECONDS if Random(f"{seed}:busy").random() < BUSY_SHARE else 0.0,
    )


def _faults(random: Random, duration: float) -> list[Fault]:
    names, weights = list(KINDS), list(KINDS.values())
    faults: list[Fault] = []
    period = random.uniform(*PERIOD_SECONDS)
    while period < duration:
        length = random.uniform(*PERIOD_SECONDS)
        count = 0 if random.random() < QUIET_SHARE else random.choice((1, 1, 2))
        for _ in range(count):
            at = period + random.random() * length / 2
            seconds = FAULT_SECONDS[0] + (FAULT_SECONDS[1] - FAULT_SECONDS[0]) * random.random() ** 2
            faults.append(Fault(len(faults) + 1, at, seconds, random.choices(names, weights)[0]))
        period += length
    return sorted(faults, key=lambda fault: fault.at)


def _topic(random: Random, brokers: int) -> tuple[tuple[str, str], ...]:
    settings = {
        "min.insync.replicas": str(min(2, brokers)),
        "message.timestamp.after.max.ms": str(2**63 - 1),  # a broker whose clock went back would refuse everything
    }
    if random.random() < 0.5:
        settings["segment.ms"] = random.choice(("2000", "10000"))  # logs of many segments
    if random.random() < 0.2:
        settings["message.timestamp.type"] = "LogAppendTime"
    return tuple(settings.items())
