"""A new leader, and what idempotent producers had under way to the former one: later batches may come first.

librdkafka sends again over a new connection what failed on another, and now and then what follows overtakes it.
"""

import asyncio

import pytest

from hightide.client.cluster import Cluster
from hightide.errors import ErrorCode
from hightide.limits import EARLIER_BATCHES_AWAITED_SECONDS
from hightide.types import NO_BROKER
from hightide.wire.batches import build_batch
from hightide.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from hightide.wire.records import Record
from tests.simulation.level1_story import Story


async def send(story: Story, producer_id: int, sequence: int) -> ErrorCode:
    """What the leader answers to one batch, on a connection of its own."""
    batch = build_batch([Record(value=b"v")], producer_id=producer_id, producer_epoch=0, base_sequence=sequence)

    async def work(cluster: Cluster) -> ErrorCode:
        known = await cluster.topic("t")
        data = TopicProduceData(
            name="t", topic_id=known.id, partition_data=[PartitionProduceData(index=0, records=memoryview(batch))]
        )
        request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data])
        connection = await cluster.broker(story.agreed().leader)
        response = await connection.call(request, ProduceResponse, timeout=20.0)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    return await story.do(work)


@pytest.mark.covers("N11", "C24")
def test_a_new_leader_waits_a_moment_for_the_batches_that_the_former_one_did_not_acknowledge() -> None:
    story = Story()

    async def play() -> None:
        await story.start()
        await story.create()
        for producer_id in (7, 8):
            assert [await send(story, producer_id, sequence) for sequence in (0, 1)] == [ErrorCode.NONE] * 2
        former = story.agreed().leader
        assert await send(story, 7, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "nothing is on its way here"
        await story.stop(former)
        await story.until(lambda: story.agreed().leader not in (former, NO_BROKER))
        assert await send(story, 7, 3) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert [await send(story, 7, sequence) for sequence in (2, 3)] == [ErrorCode.NONE] * 2
        assert await send(story, 7, 5) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "it has written to this leader"
        await asyncio.sleep(EARLIER_BATCHES_AWAITED_SECONDS)
        assert await send(story, 8, 3) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, "what is missing comes no more"

    assert story.run(play) == []
