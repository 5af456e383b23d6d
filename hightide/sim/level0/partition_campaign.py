"""Lives of clusters by chance, one per seed: calm, trouble, healing, and then everything must be well again.

The seed chooses everything: how many brokers and partitions, what the topic promises, how slow disks and network are.
"""

from random import Random
from typing import NamedTuple

from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.partition_faults import Faults
from hightide.sim.level0.partitions import FSYNC, Options, PartitionWorld, check_liveness

ACKNOWLEDGED_MIN = 500  # RELIABILITY.md: a seed with less does not count
TROUBLE_SECONDS_MAX = 300.0  # for those that come to it late
HEALING_SECONDS_MAX = 150.0  # an empty disk fills slowly where a Fetch brings one record


def drawn(seed: int) -> Options:
    """A cluster by chance: a bug hides where the usual one never goes."""
    random = Random(f"{seed}:options")
    brokers = random.choice((3, 3, 3, 4, 5))
    durability = random.choice((FSYNC, FSYNC, "replicated"))
    factor = random.choice((2, 3, 3, 3))
    return Options(
        brokers=brokers,
        partitions=random.choice((1, 2, 3)),
        replication_factor=factor,
        min_in_sync_replicas=random.choice((1, 2, 2, factor)),
        durability=durability,
        producers=random.choice((3, 4, 5)),
        lease_strict=random.random() < 0.75,
        network_delay=random.choice((0.0005, 0.002, 0.002, 0.02)),
        sync_seconds=random.choice((0.0005, 0.003, 0.003, 0.03)),
        commit_seconds=random.choice((0.002, 0.004, 0.05)),
        records_per_fetch=random.choice((1, 3, 20)),
        fault_period_seconds=random.choice((1.5, 3.0, 6.0)),
        loses_at_will=durability != FSYNC and random.random() < 0.4,
    )


class PartitionRun(NamedTuple):
    """What became of one seed."""

    seed: int
    digest: str
    events: int
    seconds: float
    acknowledged: int
    leader_changes: int
    faults: dict[str, int]
    failovers: int
    finding: InvariantError | None
    timeline: list[str]

    @property
    def counts(self) -> bool:
        """Whether enough happened for the seed to mean something."""
        return self.acknowledged >= ACKNOWLEDGED_MIN and self.leader_changes > 0 and bool(self.faults)


def run_partitions(
    seed: int,
    options: Options | None = None,
    rules: Rules = ALL_ON,
    *,
    trouble_seconds: float = 50.0,
    keeps_timeline: bool = False,
) -> PartitionRun:
    """One seed, from the first registration to the last check: trouble for so long, and on until the seed counts."""
    world = PartitionWorld(seed, drawn(seed) if options is None else options, rules, keeps_timeline=keeps_timeline)
    faults = Faults(world)
    finding: InvariantError | None = None
    try:
        _live(world, faults, trouble_seconds)
    except InvariantError as error:
        finding = error
        world.say(f"FOUND {error}")
    truths = world.truths.values()
    return PartitionRun(
        seed,
        world.trace.digest,
        world.kernel.events,
        world.kernel.now,
        world.acknowledged,
        sum(truth.leader_changes for truth in truths),
        faults.struck,
        world.controllers.failovers,
        finding,
        world.trace.timeline,
    )


def _live(world: PartitionWorld, faults: Faults, trouble_seconds: float) -> None:
    kernel, options = world.kernel, world.options
    kernel.run(2.0)
    world.create_topic("t")
    kernel.run(3.0)
    topic = world.controllers.image.topic_named("t")
    assert topic is not None
    random = kernel.stream("producers")
    producers = [
        world.add_producer(
            (topic.topic_id, number % options.partitions), acks_all=number % 4 != 3, pause=random.uniform(0.05, 0.4)
        )
        for number in range(options.producers)
    ]
    faults.begin()
    began = kernel.now
    kernel.run(began + trouble_seconds)
    while world.acknowledged < ACKNOWLEDGED_MIN and kernel.now < began + TROUBLE_SECONDS_MAX:
        kernel.run(kernel.now + 5.0)
    faults.end()
    kernel.run(kernel.now + 10.0)
    producers += faults.producers
    for producer in producers:
        producer.stop()
    check_liveness(world, producers, HEALING_SECONDS_MAX)
