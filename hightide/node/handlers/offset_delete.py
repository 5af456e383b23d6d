"""OffsetDelete (47), version 0: forget what a group committed for single partitions.

Refused for topics that consumers of the group subscribe to, and as a whole for a group in use of another kind.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: OffsetDeleteRequest, request: "Request") -> OffsetDeleteResponse:
    """Forget what may be forgotten."""
    try:
        shard = node.coordinators.shard(message.group_id)
        places = [place for topic in message.topics for place in _places(topic)]
        known = [place for place in places if _exists(node, place)]
        records, codes = shard.machine.offsets.delete(message.group_id, known)
        results = dict(zip(known, codes, strict=True))
        if records:
            await shard.committed(shard.append(records))
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteResponsePartition(
                        partition_index=place.partition,
                        error_code=results.get(place, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    )
                    for place in _places(topic)
                ],
            )
            for topic in message.topics
        ]
    )


def _places(topic: OffsetDeleteRequestTopic) -> list[TopicPartition]:
    return [TopicPartition(topic.name, partition.partition_index) for partition in topic.partitions]


def _exists(node: "Node", place: TopicPartition) -> bool:
    topic = node.image.topic_named(place.topic)
    return topic is not None and 0 <= place.partition < len(topic.partitions)
