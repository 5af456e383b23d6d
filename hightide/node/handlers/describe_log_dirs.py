"""DescribeLogDirs (35), versions 1-5: the size of each partition on disk, and the room that is left.

Whoever asks for them in our own tagged field is told where each replica's log ends and how far it knows it to be
committed (T1); others are not, since some readers refuse tags that they do not know.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.node.partitions import Partition
from hightide.storage.space import Condition
from hightide.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: DescribeLogDirsRequest, request: "Request") -> DescribeLogDirsResponse:
    """The one directory of this node."""
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in _wanted(node, message):
        described = DescribeLogDirsPartition(
            partition_index=partition.index,
            partition_size=partition.log.size_bytes,
            offset_lag=max(0, partition.high_watermark - partition.log.end),
        )
        if message.include_ends:
            described.log_end_offset = partition.log.end
            described.high_watermark = partition.high_watermark
        topics.setdefault(partition.topic, []).append(described)
    result = DescribeLogDirsResult(
        log_dir=node.settings.log_directory,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    if node.directory.space.condition is Condition.OFFLINE:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.total_bytes = node.files.total_bytes(node.settings.log_directory)
        result.usable_bytes = node.files.free_bytes(node.settings.log_directory)
    return DescribeLogDirsResponse(results=[result])


def _wanted(node: "Node", message: DescribeLogDirsRequest) -> Iterator[Partition]:
    if message.topics is None:
        yield from node.assignments
        return
    for topic in message.topics:
        table = node.assignments.by_topic.get(topic.topic, {})
        for index in topic.partitions:
            if index in table:
                yield table[index]
