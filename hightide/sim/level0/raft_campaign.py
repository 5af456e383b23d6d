"""Runs of a quorum under faults, one per seed: `run_raft(seed)` is the whole story of one.

The seed chooses everything: how many voters and observers, how bad the luck, how busy the client.
"""

from random import Random
from typing import NamedTuple

from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.raft_faults import RaftFaults
from hightide.sim.level0.raft_world import RaftWorld

RECORDS_WANTED = 500  # RELIABILITY.md: a seed with less does not count


class RaftRun(NamedTuple):
    """What became of one seed. `violation` names the invariant that broke, and how."""

    seed: int
    voters: int
    digest: str
    events: int
    seconds: float
    records: int
    elections: int
    faults: dict[str, int]
    violation: str | None
    message: str | None
    timeline: list[str]

    @property
    def counts(self) -> bool:
        """Whether enough happened to learn from: records, a leader change, a fault that took effect."""
        return self.records >= RECORDS_WANTED and (self.elections > 1 or self.voters == 1) and bool(self.faults)


def run_raft(seed: int, *, seconds: float = 60.0, rules: Rules = ALL_ON, keeps_timeline: bool = False) -> RaftRun:
    """One run: faults for so many virtual seconds, then healing and convergence."""
    shape = Random(f"{seed}:shape")
    voters = shape.choice((1, 3, 3, 3, 5))
    world = RaftWorld(
        seed, voters=voters, observers=shape.choice((0, 0, 1, 2)), rules=rules, keeps_timeline=keeps_timeline
    )
    world.append_seconds = shape.choice((0.02, 0.05, 0.1))
    violation = message = None
    faults: dict[str, int] = {}
    try:
        world.start()
        faults = RaftFaults(world, until=seconds, seconds_between=shape.choice((0.5, 1.5, 4.0))).struck
        world.kernel.run(seconds)
        world.heal()
        world.check_liveness()
    except InvariantError as error:
        violation, message = error.name, str(error)
        if keeps_timeline:
            world.say(f"!!! {error}")
    kernel = world.kernel
    return RaftRun(
        seed, voters, kernel.trace.digest, kernel.events, kernel.now, world.invariants.records, world.elections,
        faults, violation, message, kernel.trace.timeline,
    )  # fmt: skip
