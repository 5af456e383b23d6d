"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

Topics come in the order of their names, all of them when none is named. An answer carries at most
`response_partition_limit` partitions; a cursor says where the next page begins.
"""

from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.metadata.entities import Topic
from hightide.types import NO_BROKER
from hightide.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

PARTITIONS_PER_RESPONSE = 2000  # Kafka's max.request.partition.size.limit


def handle(
    node: "Node", message: DescribeTopicPartitionsRequest, request: "Request"
) -> DescribeTopicPartitionsResponse:
    """One page."""
    named = sorted({topic.name for topic in message.topics})
    names = named or sorted(topic.name for topic in node.image.topics.values())
    first = 0
    if message.cursor is not None:
        names = [name for name in names if name >= message.cursor.topic_name]
        if names and names[0] == message.cursor.topic_name:
            first = max(0, message.cursor.partition_index)
    left = max(1, min(message.response_partition_limit, PARTITIONS_PER_RESPONSE))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if left == 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = node.image.topic_named(name)
        if topic is None:
            response.topics.append(
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
            )
            continue
        described = _topic(node, topic, first, left)
        response.topics.append(described)
        following = first + len(described.partitions)
        left -= len(described.partitions)
        first = 0
        if following < len(topic.partitions):
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=following)
            break
    return response


def _topic(node: "Node", topic: Topic, first: int, limit: int) -> DescribeTopicPartitionsResponseTopic:
    indexes = range(first, min(len(topic.partitions), first + limit))
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name.startswith("__"),
        partitions=[_partition(node, topic, index) for index in indexes],
    )


def _partition(node: "Node", topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    partition = topic.partitions[index]
    offline = node.offline_replicas(topic, index, partition)
    has_leader = partition.leader != NO_BROKER and partition.leader not in offline
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync_replicas),
        eligible_leader_replicas=list(partition.eligible_leader_replicas),
        last_known_elr=list(partition.last_known_eligible),
        offline_replicas=offline,
    )
