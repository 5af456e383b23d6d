"""Loading a snapshot on a simulated network and disk: a node that crashes on the way gets there in another life."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.configs import Resource, ResourceType, alter_configs
from hightide.metadata.image import Image
from hightide.node.node import Node
from hightide.sim.process import SimulatedProcess
from hightide.sim.topology import bootstrap, node_settings
from hightide.sim.world import World

COUNT = 4  # three controllers and a broker
OFTEN = {
    "metadata.log.max.record.bytes.between.snapshots": "1500",
    "metadata.max.retention.bytes": "1",
}


class Story:
    """A cluster whose controllers keep next to no records."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.nodes = {
            number: self.world.add_node(f"broker-{number}", node_settings(number, COUNT) | OFTEN)
            for number in range(1, COUNT + 1)
        }
        self.client = self.world.add_client("client")
        self.value = 0

    def tell(self, story: Callable[["Story"], Awaitable[None]]) -> None:
        async def told() -> None:
            for number in (1, 2, 3):
                self.nodes[number].start()
            assert await self.world.until(lambda: all(self.nodes[number].is_up for number in (1, 2, 3)))
            await self.admin(lambda cluster: Admin(cluster).create_topics([NewTopic("t", 2, 3)]))
            await story(self)

        self.world.run(told())
        self.world.close()
        assert [str(problem) for problem in self.world.trace.problems] == []

    async def admin(self, work: Callable[[Cluster], Awaitable[object]]) -> None:
        async def do() -> None:
            cluster = self.client.cluster(bootstrap(3))
            try:
                await work(cluster)
            finally:
                cluster.close()

        await self.client.do(do())

    async def change(self) -> None:
        self.value += 1
        topic, value = Resource(ResourceType.TOPIC, "t"), str(10**6 + self.value)
        await self.admin(lambda cluster: alter_configs(cluster, topic, {"retention.ms": value}))

    async def forget(self, offset: int, *numbers: int) -> None:
        """Let these nodes have no records below this offset."""
        while any(self.node(number).metadata.log.start <= offset for number in numbers):
            await self.change()

    def node(self, number: int) -> Node:
        node = self.nodes[number].node
        assert node is not None
        return node

    def controller(self) -> Node:
        return max((self.node(number) for number in (1, 2, 3) if self.nodes[number].is_up), key=leads)

    async def caught_up(self, number: int) -> None:
        """It runs and knows what the controller knows."""
        process = self.nodes[number]
        assert await self.world.until(lambda: process.is_up), f"node {number} is {process.condition}"
        assert await self.world.until(lambda: of(self.node(number)) == of(self.controller())), "it does not catch up"
        start = self.node(number).metadata.log.start
        assert start == 0 or start in [
            snapshot.end for snapshot in self.node(number).metadata.snapshots.store.snapshots
        ]


def leads(node: Node) -> int:
    return node.metadata.quorum.machine.epoch if node.metadata.is_active else -1


def of(node: Node) -> Image:
    return node.image


def is_loaded_from(leader: Node) -> bool:
    return bool(leader.metadata.snapshots._loading)


async def down(process: SimulatedProcess) -> int:
    """Kill a node; where its log ended."""
    assert process.node is not None
    end = process.node.metadata.log.end
    process.kill()
    return end


def test_a_follower_and_a_new_broker_load_the_snapshot() -> None:
    async def story(told: Story) -> None:
        await told.forget(await down(told.nodes[3]), 1, 2)
        told.nodes[3].start()
        told.nodes[4].start()
        for number in (3, 4):
            await told.caught_up(number)
            assert told.node(number).metadata.log.start > 0
        await told.change()
        for number in (3, 4):
            await told.caught_up(number)

    Story(1).tell(story)


@pytest.mark.parametrize("number", [3, 4], ids=["controller", "broker"])
@pytest.mark.parametrize("first", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_a_crash_on_the_way(number: int, first: int) -> None:
    """Each time at a later operation of its disk, until it gets there without one."""

    async def story(told: Story) -> None:
        process = told.nodes[number]
        process.start()
        await told.caught_up(number)
        operation, died = first, True
        while died:
            operation += 3
            await told.forget(await down(process), *({1, 2, 3} - {number}))
            process.disk.crash_at(operation)
            process.start()
            lives = process.lives
            assert await told.world.until(lambda: process.is_up or process.loop is None)
            died = process.loop is None
            process.disk.crash_at(0)
            if died and operation % 2:
                process.lose_power()
            process.start()
            await told.caught_up(number)
            assert process.lives == lives + died
        assert operation > 40

    Story(10 + first).tell(story)


def test_a_leader_that_goes_away_in_the_middle() -> None:
    """What was loaded half is thrown away, and the next leader's snapshot will do."""

    async def story(told: Story) -> None:
        for _ in range(3):
            await told.forget(await down(told.nodes[3]), 1, 2)
            leader = told.controller()
            sender = next(process for process in told.nodes.values() if process.node is leader)
            told.nodes[3].start()
            assert await told.world.until(partial(is_loaded_from, leader))
            sender.kill()
            sender.start()
            for number in (1, 2, 3):
                await told.caught_up(number)
            await told.change()

    Story(20).tell(story)
