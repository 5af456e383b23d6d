"""A leader that stops cleanly is hardly noticed: others lead and follow within milliseconds, whatever they just did.

What must not happen is that somebody waits out a fetch that has nothing to say: a follower for the records of a
partition that it could not ask for yet, a controller for the news that what it has is committed.
"""

import asyncio
from collections.abc import Awaitable
from itertools import pairwise

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.producer import Producer
from hightide.sim.topology import bootstrap, host_of, node_settings
from hightide.sim.world import World

COUNT = 3
SILENCE_MAX = 0.2  # seconds; the fetches that must not be waited out take half a second
PACE = 0.005
SETTINGS = {"min.insync.replicas": "2"}
TOPICS = [
    NewTopic("others", assignments={0: [2, 3, 1], 1: [3, 2, 1]}, configs=SETTINGS),
    NewTopic("t", assignments={0: [1, 2, 3]}, configs=SETTINGS),
]


class SteadyProducer:
    """Sends a record every few milliseconds and remembers when each was acknowledged."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._client = world.add_client("client")
        self._sends = True
        self._told: list[float] = []
        self._deliveries: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        cluster = self._client.cluster(bootstrap(COUNT))
        await Admin(cluster).create_topics(TOPICS)
        producer = Producer(cluster)
        while self._sends:
            delivery = asyncio.ensure_future(self._remember(await producer.send("t", b"v", partition=0)))
            self._deliveries.add(delivery)
            delivery.add_done_callback(self._deliveries.discard)
            await asyncio.sleep(PACE)
        await asyncio.gather(*self._deliveries)
        await producer.close()
        cluster.close()

    def start(self) -> "asyncio.Task[None]":
        return self._client.begin(self.run())

    def stop(self) -> None:
        self._sends = False

    async def _remember(self, delivery: Awaitable[object]) -> None:
        await delivery
        self._told.append(self._world.now)

    def longest_silence(self, since: float) -> float:
        return max(later - earlier for earlier, later in pairwise(self._told) if later > since)


def silence_around_a_clean_stop(seed: int) -> float:
    world = World(seed)
    nodes = [world.add_node(host_of(number), node_settings(number, COUNT)) for number in range(1, COUNT + 1)]
    producer = SteadyProducer(world)

    async def story() -> float:
        for process in nodes:
            process.start()
        assert await world.until(lambda: all(process.is_up for process in nodes))
        producer.start()
        await asyncio.sleep(2 + world.stream("moment").random())
        begun = world.now
        nodes[0].stop()
        assert await world.until(lambda: nodes[0].node is None)
        await asyncio.sleep(2)
        producer.stop()
        await asyncio.sleep(1)
        return producer.longest_silence(begun)

    try:
        return world.run(story())
    finally:
        world.close()
        assert [str(problem) for problem in world.trace.problems] == []


@pytest.mark.parametrize("seed", range(12))
def test_nobody_waits_out_a_fetch(seed: int) -> None:
    assert silence_around_a_clean_stop(seed) < SILENCE_MAX
