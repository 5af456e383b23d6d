"""acks=all on three simulated nodes: each way in which it can't be kept has its own answer, at its own moment."""

from collections.abc import Coroutine
from typing import Any

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.errors import ErrorCode
from hightide.sim.topology import bootstrap, host_of, node_settings
from hightide.sim.world import World
from hightide.wire.batches import build_batch
from hightide.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from hightide.wire.records import Record

COUNT = 3
LAG_SECONDS = 10.0  # replica.lag.time.max.ms
PATIENCE_MS = 60_000


class Story:
    """Three nodes; "pair" lies on 1 and 2 and needs both, "alone" lies on 1."""

    def __init__(self) -> None:
        self.world = World(3)
        lag = {"replica.lag.time.max.ms": str(int(LAG_SECONDS * 1000))}
        self.nodes = {
            number: self.world.add_node(host_of(number), node_settings(number, COUNT) | lag)
            for number in range(1, COUNT + 1)
        }
        self.client = self.world.add_client("client")

    async def start(self) -> None:
        for process in self.nodes.values():
            process.start()
        assert await self.world.until(lambda: all(process.is_up for process in self.nodes.values()))
        topics = [
            NewTopic("pair", assignments={0: [1, 2]}, configs={"min.insync.replicas": "2"}),
            NewTopic("alone", assignments={0: [1]}),
        ]

        async def create() -> None:
            cluster = self.client.cluster(bootstrap(COUNT))
            await Admin(cluster).create_topics(topics)
            cluster.close()

        await self.client.do(create())

    async def produce(self, topic: str, *, acks: int = -1, timeout_ms: int = PATIENCE_MS) -> tuple[ErrorCode, float]:
        """What the leader answers to one record, and after how many seconds."""
        begun = self.world.now
        code = await self.client.do(self._produce(topic, acks, timeout_ms))
        return code, self.world.now - begun

    async def _produce(self, topic: str, acks: int, timeout_ms: int) -> ErrorCode:
        cluster: Cluster = self.client.cluster(bootstrap(COUNT))
        try:
            return await self.send(cluster, topic, build_batch([Record(value=b"v")]), acks, timeout_ms)
        finally:
            cluster.close()

    async def send(
        self, cluster: Cluster, topic: str, batch: bytearray, acks: int = -1, timeout_ms: int = PATIENCE_MS
    ) -> ErrorCode:
        """What the leader answers to a batch on the connection that `cluster` has."""
        known = await cluster.topic(topic)
        connection = await cluster.broker(1)
        data = PartitionProduceData(index=0, records=memoryview(batch))
        produced = TopicProduceData(name=topic, topic_id=known.id, partition_data=[data])
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=[produced])
        response = await connection.call(request, ProduceResponse, timeout=2 * PATIENCE_MS / 1000)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    def end(self, topic: str) -> int:
        node = self.nodes[1].node
        assert node is not None
        return node.partition(topic, 0).log.end

    def silence_follower(self) -> None:
        """Node 2 hears and says nothing to node 1 any more, but keeps its session with the others."""
        for ends in ((host_of(1), host_of(2)), (host_of(2), host_of(1))):
            self.world.network.cut(*ends)

    def both_in_sync(self) -> bool:
        node = self.nodes[1].node
        assert node is not None
        topic = node.image.topic_named("pair")
        assert topic is not None
        return len(topic.partitions[0].in_sync_replicas) == 2

    def run(self, tale: Coroutine[Any, Any, None]) -> None:
        self.world.run(tale)
        self.world.close()
        assert [str(problem) for problem in self.world.trace.problems] == []

    async def tell(self) -> None:
        await self.start()
        assert (await self.produce("alone"))[0] is ErrorCode.NONE
        assert (await self.produce("pair"))[0] is ErrorCode.NONE

        self.silence_follower()
        code, seconds = await self.produce("pair", timeout_ms=500)
        assert code is ErrorCode.REQUEST_TIMED_OUT, "the set is still whole, the follower may come back"
        assert seconds == pytest.approx(0.5, abs=0.2)
        kept = self.end("pair")

        code, seconds = await self.produce("pair")
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "the set shrank while the record waited"
        assert seconds < LAG_SECONDS * 2
        assert self.end("pair") == kept + 1, "it was appended, and stays"

        code, seconds = await self.produce("pair")
        assert code is ErrorCode.NOT_ENOUGH_REPLICAS
        assert seconds < 0.5, "at once"
        assert self.end("pair") == kept + 1, "refused before the append"
        assert (await self.produce("pair", acks=1))[0] is ErrorCode.NONE, "acks=1 asks for the leader alone"
        code, seconds = await self.produce("alone")
        assert code is ErrorCode.NONE
        assert seconds < 0.5, "a single replica waits for nobody"

        self.world.network.heal()
        assert await self.world.until(self.both_in_sync)
        assert (await self.produce("pair"))[0] is ErrorCode.NONE, "and all is well again"

    async def tell_of_followers(self) -> None:
        """A producer sends its second batch before it knows that the first was refused."""
        await self.start()
        await self.client.do(self._write_through_a_short_absence())

    async def _write_through_a_short_absence(self) -> None:
        cluster: Cluster = self.client.cluster(bootstrap(COUNT))

        async def send(sequence: int) -> ErrorCode:
            batch = build_batch([Record(value=b"v")], producer_id=7, producer_epoch=0, base_sequence=sequence)
            return await self.send(cluster, "pair", batch)

        for first in (0, 2):  # a producer that nobody knows yet, and one whose last batch is known
            self.silence_follower()
            assert await self.send(cluster, "pair", build_batch([Record(value=b"v")]), acks=1) is ErrorCode.NONE
            assert await self.world.until(lambda: not self.both_in_sync())
            end = self.end("pair")
            assert await send(first) is ErrorCode.NOT_ENOUGH_REPLICAS
            self.world.network.heal()
            assert await self.world.until(self.both_in_sync)
            assert await send(first + 1) is ErrorCode.NOT_ENOUGH_REPLICAS, "as the one that it follows"
            assert self.end("pair") == end, "nothing passed the one that was refused"
            assert [await send(sequence) for sequence in (first, first + 1)] == [ErrorCode.NONE] * 2
            assert self.end("pair") == end + 2
        cluster.close()


@pytest.mark.covers("T16")
def test_each_way_to_fail_has_its_own_answer() -> None:
    story = Story()
    story.run(story.tell())


@pytest.mark.covers("N10", "N11")
def test_what_follows_a_refused_batch_is_refused_like_it() -> None:
    story = Story()
    story.run(story.tell_of_followers())
