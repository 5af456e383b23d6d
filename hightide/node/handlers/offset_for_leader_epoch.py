"""OffsetForLeaderEpoch (23), versions 2-4: where a leader epoch ended in this leader's log (KIP-101, KIP-320).

Consumers ask after a leader change whether what they read still stands; followers ask to find where to truncate. The
answer is the largest epoch not above the asked one, and its end.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError
from hightide.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: OffsetForLeaderEpochRequest, request: "Request") -> OffsetForLeaderEpochResponse:
    """One end per partition."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_answer(node, topic.topic, partition) for partition in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _answer(node: "Node", topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    answer = EpochEndOffset(partition=asked.partition)
    try:
        partition = node.partition(topic, asked.partition)
        partition.check_leader(asked.current_leader_epoch)
    except ApiError as error:
        answer.error_code = error.code
        return answer
    answer.leader_epoch, answer.end_offset = partition.log.end_of_epoch(asked.leader_epoch)
    return answer
