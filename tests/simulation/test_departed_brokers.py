"""Clients are told who leads instead of a dead broker before they are told that it is gone."""

import asyncio
from collections.abc import Callable

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.limits import DEPARTED_BROKER_LISTED_SECONDS
from hightide.sim.process import SimulatedProcess
from hightide.sim.topology import host_of, node_settings
from hightide.sim.world import World
from hightide.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.simulation.visits import visit

COUNT = 3
VICTIM = 1
PACE = 0.1
TOPIC = "t"


class Watcher:
    """Asks a broker that lives who leads and who is there, several times a second."""

    def __init__(self) -> None:
        self.listed: list[tuple[float, int, set[int]]] = []
        self._watches = True

    def stop(self) -> None:
        self._watches = False

    async def watch(self, cluster: Cluster, world: World) -> None:
        connection = await cluster.broker(VICTIM + 1)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        while self._watches:
            told = await connection.call(request, MetadataResponse)
            leader = told.topics[0].partitions[0].leader_id
            self.listed.append((world.now, leader, {broker.node_id for broker in told.brokers}))
            await asyncio.sleep(PACE)


def watched_while(victim_ends: Callable[[SimulatedProcess], None]) -> Watcher:
    """What clients are told while one of three brokers ends and comes back."""
    world = World(7)
    nodes = {number: world.add_node(host_of(number), node_settings(number, COUNT)) for number in range(1, COUNT + 1)}
    client, watcher = world.add_client("client"), Watcher()

    async def story() -> None:
        for process in nodes.values():
            process.start()
        assert await world.until(lambda: all(process.is_up for process in nodes.values()))
        new = NewTopic(TOPIC, assignments={0: [1, 2, 3]})
        await visit(client, COUNT, lambda cluster: Admin(cluster).create_topics([new]))
        client.begin(visit(client, COUNT, lambda cluster: watcher.watch(cluster, world)))
        await asyncio.sleep(1)
        victim_ends(nodes[VICTIM])
        await asyncio.sleep(20)
        nodes[VICTIM].start()
        assert await world.until(lambda: nodes[VICTIM].is_up)
        await asyncio.sleep(2)
        watcher.stop()
        await asyncio.sleep(1)

    world.run(story())
    world.close()
    assert [str(problem) for problem in world.trace.problems] == []
    assert watcher.listed[-1][2] == {1, 2, 3}, "it is back when it is back"
    return watcher


def test_a_dead_broker_is_listed_until_clients_know_its_successor() -> None:
    watcher = watched_while(lambda process: process.kill())
    moved = next(when for when, leader, _ in watcher.listed if leader != VICTIM)
    gone = next(when for when, _, brokers in watcher.listed if VICTIM not in brokers)
    assert abs(gone - moved - DEPARTED_BROKER_LISTED_SECONDS) <= 2 * PACE
    assert all(brokers == {2, 3} for when, _, brokers in watcher.listed if gone <= when < gone + 1), "gone is gone"


def test_a_broker_that_stops_cleanly_is_gone_with_its_last_leader() -> None:
    watcher = watched_while(lambda process: process.stop())
    moved = next(when for when, leader, _ in watcher.listed if leader != VICTIM)
    gone = next(when for when, _, brokers in watcher.listed if VICTIM not in brokers)
    assert gone <= moved + 2 * PACE
