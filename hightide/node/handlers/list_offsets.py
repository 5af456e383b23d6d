"""ListOffsets (2), versions 1-11: the offset at a time, or at one of the ends.

Negative times have meanings: -1 the end (the high watermark, or the last stable offset for read_committed), -2 the
start, -3 the record with the highest timestamp (KIP-734), -4 the local start and -5, -6 the tiered ones: without tiered
storage the local start is the start and nothing is tiered. A new leader names no end until its high watermark reached
its epoch's start (OFFSET_NOT_AVAILABLE), so that an end once told never goes back (K15).
"""

from typing import TYPE_CHECKING, NamedTuple

from hightide.errors import ApiError, CorruptionError, ErrorCode
from hightide.node.partitions import Partition
from hightide.types import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP
from hightide.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
READ_COMMITTED = 1
LEADER_EPOCH_FROM = 4
CONSUMER = -1
DEBUGGING_CONSUMER = -2  # sees the whole log, and may ask a follower: for tools that compare replicas (S4)


class Found(NamedTuple):
    """An offset, the timestamp of its record where one was looked for, and the epoch that wrote it."""

    offset: int
    timestamp: int
    epoch: int


NOT_FOUND = Found(NO_OFFSET, NO_TIMESTAMP, NO_EPOCH)


def handle(node: "Node", message: ListOffsetsRequest, request: "Request") -> ListOffsetsResponse:
    """One answer per partition, errors beside offsets."""
    asked = [(topic.name, partition.partition_index) for topic in message.topics for partition in topic.partitions]
    repeated = {key for key in asked if asked.count(key) > 1} if len(set(asked)) < len(asked) else set()
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(node, message, request.version, topic.name, partition, repeated)
                    for partition in topic.partitions
                ],
            )
            for topic in message.topics
        ]
    )


def _answer(
    node: "Node",
    message: ListOffsetsRequest,
    version: int,
    topic: str,
    asked: ListOffsetsPartition,
    repeated: set[tuple[str, int]],
) -> ListOffsetsPartitionResponse:
    answer = ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, offset=NO_OFFSET, timestamp=NO_TIMESTAMP, leader_epoch=NO_EPOCH
    )
    try:
        if (topic, asked.partition_index) in repeated:
            raise ApiError(ErrorCode.INVALID_REQUEST)
        partition = node.partition(topic, asked.partition_index)
        if message.replica_id == DEBUGGING_CONSUMER:
            partition.check_replica(asked.current_leader_epoch)
        else:
            partition.check_leader(asked.current_leader_epoch)
        found = _find(partition, asked.timestamp, message.replica_id, message.isolation_level)
    except ApiError as error:
        answer.error_code = error.code
        return answer
    answer.offset, answer.timestamp = found.offset, found.timestamp
    if version >= LEADER_EPOCH_FROM:
        answer.leader_epoch = found.epoch
    return answer


def _find(partition: Partition, timestamp: int, replica_id: int, isolation: int) -> Found:
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return Found(log.start, NO_TIMESTAMP, log.epochs.epoch_at(log.start))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOT_FOUND
    if replica_id != CONSUMER:
        bound = log.end
    else:
        if not partition.replica.answers_offsets:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE)
        bound = partition.last_stable_offset if isolation == READ_COMMITTED else partition.replica.high_watermark
    if timestamp == LATEST:
        return Found(bound, NO_TIMESTAMP, partition.replica.leader_epoch)
    if timestamp < MAX_TIMESTAMP:
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} has no meaning")
    try:
        if timestamp == MAX_TIMESTAMP:
            found = log.max_timestamp_offset(bound)
        else:
            found = log.offset_for_timestamp(timestamp, bound)
    except (CorruptionError, OSError) as error:
        raise partition.quarantine(error) from error
    return NOT_FOUND if found is None else Found(*found)
