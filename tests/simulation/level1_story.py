"""A small cluster on virtual time for one directed story: whole nodes, a client, and faults exactly where they hurt."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.consumer import Consumer, Range
from hightide.client.offsets import LATEST, list_offsets
from hightide.client.producer import Producer
from hightide.client.retries import RetryPolicy
from hightide.metadata.entities import Partition as AgreedPartition
from hightide.node.node import Node
from hightide.node.partitions import Partition
from hightide.rules import ALL_ON, Rules
from hightide.sim.process import Condition, SimulatedProcess
from hightide.sim.topology import bootstrap, node_settings
from hightide.sim.world import World
from hightide.types import NO_BROKER, TopicPartition

T = TypeVar("T")

RETRIES = RetryPolicy(first_pause=0.05, longest_pause=0.5, give_up_after=15.0)
PATIENCE_SECONDS = 30.0


class Story:
    """`nodes` by id. What a test asserts is what a client was told, or what the timeline's checks reported."""

    def __init__(
        self, seed: int = 7, *, count: int = 3, rules: Rules = ALL_ON, settings: Mapping[str, str] | None = None
    ) -> None:
        self.world = World(seed, rules=rules)
        self.count = count
        self.nodes: dict[int, SimulatedProcess] = {
            number: self.world.add_node(f"broker-{number}", node_settings(number, count) | dict(settings or {}))
            for number in range(1, count + 1)
        }
        self.client = self.world.add_client("client")

    def run(self, story: Callable[[], Awaitable[None]]) -> list[str]:
        """Let it happen; the problems that were reported."""

        async def whole() -> None:
            await story()

        self.world.run(whole())
        self.world.close()
        return [str(problem) for problem in self.world.trace.problems]

    # ------------------------------------------------------------------ the nodes

    def node(self, number: int) -> Node:
        """A node that runs."""
        node = self.nodes[number].node
        assert node is not None, f"node {number} is down"
        return node

    def partition(self, number: int, topic: str = "t") -> Partition:
        """Partition 0 of a topic as one node has it."""
        return self.node(number).partition(topic, 0)

    def agreed(self, topic: str = "t") -> AgreedPartition:
        """Partition 0 of a topic in the newest metadata of any node."""
        images = [process.node.image for process in self.nodes.values() if process.is_up and process.node is not None]
        found = max(images, key=lambda image: image.offset).topic_named(topic)
        assert found is not None, f"nobody knows {topic}"
        return found.partitions[0]

    def controller(self) -> int:
        """Who is the active controller; -1 for nobody."""
        for number, process in self.nodes.items():
            if process.is_up and process.node is not None and process.node.metadata.is_active:
                return number
        return NO_BROKER

    async def until(self, condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for something that has to happen."""
        assert await self.world.until(condition, seconds), "\n".join(self.world.trace.timeline)

    async def start(self, numbers: Iterable[int] | None = None) -> None:
        """Start nodes that are down, all by default, and wait for them."""
        wanted = [self.nodes[number] for number in numbers or self.nodes]
        for process in wanted:
            process.start()
        await self.until(lambda: all(process.is_up for process in wanted))

    async def stop(self, number: int) -> None:
        """Stop a node cleanly."""
        process = self.nodes[number]
        process.stop()
        await self.until(lambda: process.condition is Condition.DOWN)

    async def in_sync(self, members: Iterable[int], topic: str = "t") -> None:
        """Wait until these are in sync, and no others."""
        wanted = set(members)
        await self.until(lambda: set(self.agreed(topic).in_sync_replicas) == wanted)

    # ------------------------------------------------------------------ the client

    async def do(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """One thing that a client does."""

        async def doing() -> T:
            cluster = self._cluster()
            try:
                return await work(cluster)
            finally:
                cluster.close()

        return await self.client.do(doing())

    def _cluster(self) -> Cluster:
        return self.client.cluster(bootstrap(self.count), retries=RETRIES, request_timeout=5.0)

    async def create(self, topic: str = "t", replicas: Sequence[int] = (1, 2, 3), **settings: str) -> None:
        """A topic of one partition."""
        new = NewTopic(topic, assignments={0: list(replicas)}, configs=settings)
        outcome = await self.do(lambda cluster: Admin(cluster).create_topics([new]))
        assert outcome == {topic: None}

    async def delete(self, topic: str) -> None:
        """Delete a topic."""
        assert await self.do(lambda cluster: Admin(cluster).delete_topics([topic])) == {topic: None}

    async def produce(self, *values: bytes, topic: str = "t") -> None:
        """Values that are acknowledged, in order, when this returns."""
        await self.client.do(self.send(*values, topic=topic))

    async def send(self, *values: bytes, topic: str = "t") -> None:
        """The same, for a task of the client."""
        cluster = self._cluster()
        producer = Producer(cluster, delivery_timeout=20.0)
        try:
            for value in values:
                await (await producer.send(topic, value, partition=0))
            await producer.close()
        finally:
            cluster.close()

    async def read(self, topic: str = "t") -> list[bytes]:
        """Every value a new client reads."""
        where = TopicPartition(topic, 0)

        async def work(cluster: Cluster) -> list[bytes]:
            end = (await list_offsets(cluster, {where: LATEST}))[where].offset
            consumer = Consumer(cluster, {where: Range(0, end)})
            return [record.value or b"" async for records in consumer.batches() for record in records]

        return await self.do(work)
