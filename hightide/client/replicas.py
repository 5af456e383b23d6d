"""Reading one replica of a partition, leader or not, through the broker that keeps it: for comparing replicas (S4).

Requests carry the replica id -2, Kafka's debugging consumer, which a follower answers too. Nothing here looks for a
leader, and nothing is mended: whoever compares replicas wants to know what this one has.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.fetch import DEBUGGING_CONSUMER, FetchedPartition, FetchLimits, fetch
from hightide.client.offsets import EARLIEST
from hightide.errors import ApiError, ErrorCode
from hightide.types import NO_EPOCH, NO_OFFSET, TopicPartition
from hightide.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

REPLICA_LANE = "replica"
_ONE_BATCH = FetchLimits(max_wait_ms=0, max_bytes=1, partition_max_bytes=1)


class ReplicaRange(NamedTuple):
    """What a broker says about its replica: its log start and high watermark, or why it says nothing."""

    start: int
    high_watermark: int
    error: ErrorCode = ErrorCode.NONE
    reason: str = ""


async def replica_ranges(
    cluster: Cluster, brokers: Sequence[int], wanted: Iterable[tuple[int, TopicPartition]]
) -> dict[tuple[int, TopicPartition], ReplicaRange]:
    """The range of every (broker, partition); a broker that can't be reached is an answer too."""
    by_broker: defaultdict[int, list[TopicPartition]] = defaultdict(list)
    for broker, where in wanted:
        by_broker[broker].append(where)
    answers = await asyncio.gather(*(_ranges_at(cluster, broker, by_broker[broker]) for broker in brokers))
    return {
        (broker, where): found
        for broker, answer in zip(brokers, answers, strict=True)
        for where, found in answer.items()
    }


async def fetch_replica(
    cluster: Cluster, broker: int, partition: TopicPartition, offset: int, limits: FetchLimits
) -> FetchedPartition:
    """Whole batches from an offset on, as this broker has them."""
    connection = await cluster.broker(broker, REPLICA_LANE)
    topic = await cluster.topic(partition.topic)
    answer = await fetch(connection, [topic], {partition: offset}, limits=limits, any_replica=True)
    if len(answer) != 1:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"broker {broker} says nothing about {partition}")
    return answer[0]


async def _ranges_at(
    cluster: Cluster, broker: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ReplicaRange]:
    try:
        starts = await _starts(cluster, broker, partitions)
        readable = {where: found.start for where, found in starts.items() if not found.error}
        if readable:
            topics = [await cluster.topic(name) for name in sorted({where.topic for where in readable})]
            connection = await cluster.broker(broker, REPLICA_LANE)
            for fetched in await fetch(connection, topics, readable, limits=_ONE_BATCH, any_replica=True):
                where = fetched.partition
                reason = fetched.error.name if fetched.error else ""
                starts[where] = ReplicaRange(readable[where], fetched.high_watermark, fetched.error, reason)
    except ApiError as error:
        failed = ReplicaRange(NO_OFFSET, NO_OFFSET, error.code, error.message or error.code.name)
        return dict.fromkeys(partitions, failed)
    return starts


async def _starts(
    cluster: Cluster, broker: int, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ReplicaRange]:
    connection = await cluster.broker(broker, REPLICA_LANE)
    topics: defaultdict[str, list[ListOffsetsPartition]] = defaultdict(list)
    for name, index in partitions:
        topics[name].append(
            ListOffsetsPartition(partition_index=index, current_leader_epoch=NO_EPOCH, timestamp=EARLIEST)
        )
    request = ListOffsetsRequest(
        replica_id=DEBUGGING_CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=asked) for name, asked in topics.items()],
    )
    response = await connection.call(request, ListOffsetsResponse)
    found = {}
    for topic in response.topics:
        for partition in topic.partitions:
            code = code_of(partition.error_code)
            reason = code.name if code else ""
            where = TopicPartition(topic.name, partition.partition_index)
            found[where] = ReplicaRange(partition.offset, NO_OFFSET, code, reason)
    return found
