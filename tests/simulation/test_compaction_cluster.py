"""Compacted topics on three simulated nodes: every replica ends with the last acknowledged value of each key.

Each replica compacts its own log at its own time, so their records differ; what they say of a key does not. Helpers die
now and then, and so do nodes, with and without their power.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.producer import Producer
from hightide.errors import ApiError
from hightide.rules import ALL_ON, Rules
from hightide.sim.process import SimulatedProcess
from hightide.sim.topology import node_settings
from hightide.sim.world import World
from hightide.storage.log import Log
from hightide.types import TopicPartition
from hightide.wire.records import iterate_headers, iterate_records
from tests.simulation.visits import visit

COUNT = 3
KEYS = 12
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "300",
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "1000",
    "file.delete.delay.ms": "500",
}
PARTITION = TopicPartition("t", 0)
View = dict[bytes | None, bytes]


class Nodes:
    """Three nodes that compact all the time, and a client."""

    def __init__(self, seed: int, rules: Rules = ALL_ON) -> None:
        self.world = World(seed, rules=rules)
        settings = {"log.cleaner.backoff.ms": "200"}
        self.processes = [
            self.world.add_node(f"broker-{number}", node_settings(number, COUNT) | settings)
            for number in range(1, COUNT + 1)
        ]
        self.client = self.world.add_client("client")

    async def start(self) -> None:
        for process in self.processes:
            process.start()
        assert await self.world.until(lambda: all(process.is_up for process in self.processes))
        await self.do(
            lambda cluster: Admin(cluster).create_topics([NewTopic("t", configs=COMPACTED, assignments={0: [1, 2, 3]})])
        )

    async def do(self, work: Callable[[Cluster], Awaitable[object]]) -> None:
        await visit(self.client, COUNT, work)

    async def put(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> list[bool]:
        """Which of these were acknowledged; the others may be there or not."""
        outcomes: list[bool] = []

        async def produce(cluster: Cluster) -> None:
            producer = Producer(cluster)
            sent = [await producer.send("t", value, key=key) for key, value in pairs]
            for delivery in sent:
                try:
                    await delivery
                    outcomes.append(True)
                except ApiError:
                    outcomes.append(False)
            await producer.close()

        try:
            await self.do(produce)
        except ApiError:
            pass
        return outcomes + [False] * (len(pairs) - len(outcomes))

    def log(self, number: int) -> Log:
        node = self.processes[number - 1].node
        assert node is not None
        return node.partition("t", 0).log

    def view(self, number: int) -> View:
        """What this replica's log says."""
        log = self.log(number)
        last: dict[bytes | None, bytes | None] = {}
        offset = log.start
        while offset < log.end:
            read = log.read(offset, 1 << 20, upper_bound=log.end, min_one_batch=True)
            assert read is not None
            data = read.slice.read()
            read.slice.release()
            for position, header in iterate_headers(data):
                last |= {record.key: record.value for record in iterate_records(data, position, header)}
            offset = read.end
        return {key: value for key, value in last.items() if value is not None}

    async def settled(self) -> None:
        """Everybody is up and has everything."""
        for process in self.processes:
            process.start()
        assert await self.world.until(lambda: all(process.is_up for process in self.processes), 120)
        assert await self.world.until(lambda: len({self.log(number).synced_end for number in (1, 2, 3)}) == 1, 120)

    def run(self, story: Awaitable[Any]) -> Any:
        try:
            return self.world.run(story)  # type: ignore[arg-type]
        finally:
            self.world.close()


async def away(nodes: Nodes) -> bool:
    """A follower is away while a key is deleted and forgotten; whether it has forgotten it too in the end."""
    await nodes.start()
    await nodes.put([(b"k", b"deleted later"), (b"x", b"0")])
    await nodes.settled()
    assert nodes.view(3)[b"k"] == b"deleted later"
    nodes.processes[2].kill()
    await nodes.put([(b"k", None)])
    for number in range(200):
        await nodes.put([(b"x", b"%d" % number)])
        await asyncio.sleep(0.4)
        if all(nodes.log(number).tombstone_horizon > 2 for number in (1, 2)):
            break
    await nodes.settled()
    assert nodes.view(1) == nodes.view(2)
    assert b"k" not in nodes.view(1)
    return b"k" not in nodes.view(3)


def test_a_follower_that_was_away_forgets_too() -> None:
    nodes = Nodes(11)
    assert nodes.run(away(nodes))
    assert [str(problem) for problem in nodes.world.trace.problems] == []


def test_without_the_rule_a_deleted_record_stays_on_a_follower() -> None:
    nodes = Nodes(11, ALL_ON.without("r20_refetch_below_horizon"))
    assert not nodes.run(away(nodes))


async def churn(nodes: Nodes, random: Random) -> dict[bytes, set[bytes | None]]:
    """Write keys while nodes die; what each key may be in the end: the last acknowledged, or a later one."""
    await nodes.start()
    possible: dict[bytes, set[bytes | None]] = {b"k%d" % number: {None} for number in range(KEYS)}
    for number in range(60):
        keys = random.sample(sorted(possible), 3)
        pairs = [(key, None if random.random() < 0.2 else b"%d" % number) for key in keys]
        for (key, value), acknowledged in zip(pairs, await nodes.put(pairs), strict=True):
            possible[key] = {value} if acknowledged else possible[key] | {value}
        _trouble(nodes.processes, random)
        await asyncio.sleep(random.uniform(0.05, 0.8))
    return possible


def _trouble(processes: Sequence[SimulatedProcess], random: Random) -> None:
    for process in processes:
        process.start()
    if random.random() < 0.3:
        victim = random.choice(processes)
        victim.kill() if random.random() < 0.5 else victim.lose_power()


@pytest.mark.parametrize("seed", range(3))
def test_every_replica_has_the_last_value_of_every_key(seed: int) -> None:
    nodes = Nodes(seed)

    async def story() -> None:
        possible = await churn(nodes, Random(seed))
        await nodes.settled()
        views = [nodes.view(number) for number in (1, 2, 3)]
        assert views[0] == views[1] == views[2]
        for key, values in possible.items():
            assert views[0].get(key) in values, f"{key!r} is {views[0].get(key)!r}, not one of {values}"
        clean_ends = [process.node.directory.clean_end(PARTITION) for process in nodes.processes if process.node]
        assert max(clean_ends) > 0, "nothing was compacted"

    nodes.run(story())
    assert [str(problem) for problem in nodes.world.trace.problems] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 140))
def test_and_for_many_seeds(seed: int) -> None:
    test_every_replica_has_the_last_value_of_every_key(seed)
