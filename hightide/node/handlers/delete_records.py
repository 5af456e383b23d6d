"""DeleteRecords (21), versions 0-2: move a partition's start up; -1 means the high watermark.

Nothing at or above the high watermark can go. The new start is answered as the low watermark. A topic that
is compacted and nothing else keeps the last value of each key for ever: POLICY_VIOLATION.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

HIGH_WATERMARK = -1


def handle(node: "Node", message: DeleteRecordsRequest, request: "Request") -> DeleteRecordsResponse:
    """One new start per partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(node, topic.name, partition) for partition in topic.partitions]
            )
            for topic in message.topics
        ]
    )


def _delete(node: "Node", topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=-1)
    try:
        partition = node.partition(topic, asked.partition_index)
        partition.check_leader()
        settings = partition.log.settings
        if settings.compact_policy and not settings.delete_policy:
            raise ApiError(ErrorCode.POLICY_VIOLATION)
        high_watermark = partition.replica.high_watermark
        offset = high_watermark if asked.offset == HIGH_WATERMARK else asked.offset
        if not 0 <= offset <= high_watermark:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if offset > partition.log.start:
            partition.log.advance_start(offset)
            node.checkpoints.soon()
        result.low_watermark = partition.log.start
    except ApiError as error:
        result.error_code = error.code
    return result
