"""A follower that was away catches up at the rate that an operator allows; replicas in sync do not wait."""

from collections.abc import Awaitable, Callable, Mapping

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.configs import Resource, ResourceType, alter_configs
from hightide.client.producer import Producer
from hightide.sim.topology import host_of, node_settings
from hightide.sim.world import World
from tests.simulation.visits import visit

COUNT = 3
RATE = 10_000
RECORDS, RECORD_BYTES = 200, 1000  # twenty seconds' worth
PIECE_BYTES = 5_000  # of one fetch: what a throttle may be overdrawn by
AWAY = 3


class Story:
    """Node 3 is away while records come; how long it then takes it to have them, in virtual seconds."""

    def __init__(self, topic: Mapping[str, str], brokers: Mapping[str, str]) -> None:
        self.world = World(5)
        small = {"replica.fetch.max.bytes": str(PIECE_BYTES)}
        self.nodes = {
            number: self.world.add_node(host_of(number), node_settings(number, COUNT) | small)
            for number in range(1, COUNT + 1)
        }
        self.client = self.world.add_client("client")
        self.topic, self.brokers = topic, brokers

    async def do(self, work: Callable[[Cluster], Awaitable[object]]) -> None:
        await visit(self.client, COUNT, work)

    async def produce(self, cluster: Cluster) -> None:
        producer = Producer(cluster)
        for _ in range(RECORDS):
            await (await producer.send("t", bytes(RECORD_BYTES), partition=0))
        await producer.close()

    def end(self, number: int) -> int:
        node = self.nodes[number].node
        return -1 if node is None else node.partition("t", 0).log.end

    async def tell(self) -> float:
        for process in self.nodes.values():
            process.start()
        assert await self.world.until(lambda: all(process.is_up for process in self.nodes.values()))
        wanted = NewTopic("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2", **self.topic})
        await self.do(lambda cluster: Admin(cluster).create_topics([wanted]))
        if self.brokers:
            every = Resource(ResourceType.BROKER, "")
            await self.do(lambda cluster: alter_configs(cluster, every, self.brokers))
        self.nodes[AWAY].kill()
        begun = self.world.now
        await self.do(self.produce)
        assert self.world.now - begun < RECORDS * RECORD_BYTES / RATE, "whoever is in sync does not wait"
        assert self.end(2) == RECORDS
        self.nodes[AWAY].start()
        assert await self.world.until(lambda: self.nodes[AWAY].is_up)
        begun = self.world.now
        assert await self.world.until(lambda: self.end(AWAY) == RECORDS, 120)
        return self.world.now - begun


def catch_up(topic: Mapping[str, str], brokers: Mapping[str, str]) -> float:
    story = Story(topic, brokers)
    seconds = story.world.run(story.tell())
    story.world.close()
    assert [str(problem) for problem in story.world.trace.problems] == []
    return seconds


@pytest.mark.parametrize("end", ["leader", "follower"])
@pytest.mark.parametrize("listed", ["*", "0:1,0:3"])
def test_at_the_rate_of_either_end(end: str, listed: str) -> None:
    topic = {f"{end}.replication.throttled.replicas": listed}
    brokers = {f"{end}.replication.throttled.rate": str(RATE)}
    expected = RECORDS * RECORD_BYTES / RATE
    assert expected - 3 < catch_up(topic, brokers) < expected + 5


@pytest.mark.parametrize(
    ("topic", "brokers"),
    [
        ({}, {}),
        ({}, {"leader.replication.throttled.rate": str(RATE), "follower.replication.throttled.rate": str(RATE)}),
        ({"leader.replication.throttled.replicas": "*", "follower.replication.throttled.replicas": "*"}, {}),
        ({"follower.replication.throttled.replicas": "0:2"}, {"follower.replication.throttled.rate": str(RATE)}),
    ],
)
def test_a_rate_without_a_replica_or_a_replica_without_a_rate_is_no_limit(
    topic: Mapping[str, str], brokers: Mapping[str, str]
) -> None:
    assert catch_up(topic, brokers) < 5
