"""Where a partition begins and ends, and which offset a point in time has."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.errors import ApiError
from hightide.types import NO_BROKER, TopicPartition
from hightide.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

# Instead of a timestamp; Kafka's numbers.
LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3


class FoundOffset(NamedTuple):
    """An answer: the offset is -1 where no record is as young as the timestamp."""

    offset: int
    timestamp: int
    leader_epoch: int


async def list_offsets(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], *, read_committed: bool = False
) -> dict[TopicPartition, FoundOffset]:
    """The first offset at or after each timestamp, or one of the three names above."""
    return await cluster.retrying(lambda: _attempt(cluster, wanted, read_committed))


async def _attempt(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, FoundOffset]:
    by_leader: defaultdict[int, defaultdict[str, list[ListOffsetsPartition]]] = defaultdict(lambda: defaultdict(list))
    for (name, index), timestamp in wanted.items():
        partition = (await cluster.topic(name)).leader(index)
        by_leader[partition.leader][name].append(
            ListOffsetsPartition(
                partition_index=index, current_leader_epoch=partition.leader_epoch, timestamp=timestamp
            )
        )
    answers = await asyncio.gather(
        *(_ask(cluster, leader, topics, read_committed) for leader, topics in by_leader.items())
    )
    return {partition: found for answer in answers for partition, found in answer.items()}


async def _ask(
    cluster: Cluster, leader: int, topics: Mapping[str, list[ListOffsetsPartition]], read_committed: bool
) -> dict[TopicPartition, FoundOffset]:
    connection = await cluster.broker(leader)
    request = ListOffsetsRequest(
        replica_id=NO_BROKER,
        isolation_level=int(read_committed),
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        timeout_ms=int(cluster.request_timeout * 1000),
    )
    response = await connection.call(request, ListOffsetsResponse)
    found = {}
    for topic in response.topics:
        for partition in topic.partitions:
            where = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code:
                raise ApiError(code_of(partition.error_code), f"partition {where}")
            found[where] = FoundOffset(partition.offset, partition.timestamp, partition.leader_epoch)
    return found
