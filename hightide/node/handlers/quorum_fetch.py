"""Fetch (1) on a controller's listener, versions 4-18: voters and observers pull the metadata log (KIP-595).

The quorum machine judges and credits the fetch when it arrives. Then the answer waits, like any fetch, until there is
something to send or a newer high watermark to tell, or the time is up. It carries records to the log's end, committed
or not: a voter that has them is how they get committed.
"""

import asyncio
from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode, StorageError
from hightide.replication.quorum_effects import AnswerFetch
from hightide.replication.quorum_events import QuorumFetched
from hightide.types import METADATA_TOPIC_ID
from hightide.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

NEVER = float("-inf")


async def handle(node: "Node", message: FetchRequest, request: "Request") -> FetchResponse:
    """Judge, wait, answer."""
    asked = [part for topic in message.topics if topic.topic_id == METADATA_TOPIC_ID for part in topic.partitions]
    if len(asked) != 1 or asked[0].partition != 0:
        raise ApiError(ErrorCode.INVALID_REQUEST, "a controller serves the metadata log only")
    part = asked[0]
    quorum, clock = node.metadata.quorum, node.clock
    epoch, answered_at, told = request.session.quorum_answer
    verdict: asyncio.Future[AnswerFetch] = asyncio.get_running_loop().create_future()
    quorum.tell(
        QuorumFetched(
            verdict,
            message.replica_state.replica_id if request.version >= 15 else message.replica_id,
            part.current_leader_epoch,
            part.fetch_offset,
            part.last_fetched_epoch,
            clock.now(),
            part.replica_directory_id,
            answered_at if epoch == quorum.machine.epoch else NEVER,
        )
    )
    answer = await verdict
    serves = not answer.error and answer.diverging is None and answer.snapshot is None
    if serves and answer.offset >= node.metadata.log.end:
        # Another follower's fetch may have committed what this one has without knowing that it is committed.
        await node.metadata.progressed(told, message.max_wait_ms / 1000)
    response = _response(node, answer, message.max_bytes, serves=serves)
    told = response.responses[0].partitions[0].high_watermark
    request.session.quorum_answer = (answer.epoch, clock.now(), told)
    return response


def _read(node: "Node", offset: int, max_bytes: int) -> bytes:
    """Records of the metadata log. A controller that can't read them is of no use (R10)."""
    log = node.metadata.log
    try:
        read = log.read(offset, max_bytes, upper_bound=log.end, min_one_batch=True)
        if read is None:
            return b""
        records = read.slice.read()
        read.slice.release()
        return records
    except (OSError, StorageError) as error:
        node.disk_failed(error)
        raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _response(node: "Node", answer: AnswerFetch, max_bytes: int, *, serves: bool) -> FetchResponse:
    machine, log = node.metadata.quorum.machine, node.metadata.log
    error, records = answer.error, b""
    if serves:
        if machine.leader != answer.leader or machine.epoch != answer.epoch:
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
        elif log.start <= answer.offset < log.end:
            records = _read(node, answer.offset, max_bytes)
    part = PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=machine.high_watermark if machine.is_leader else answer.high_watermark,
        last_stable_offset=-1,
        log_start_offset=log.start,
        current_leader=LeaderIdAndEpoch(leader_id=machine.leader, leader_epoch=machine.epoch),
        records=records,
    )
    if answer.diverging is not None:
        part.diverging_epoch = EpochEndOffset(epoch=answer.diverging.epoch, end_offset=answer.diverging.end)
    if answer.snapshot is not None:
        part.snapshot_id = SnapshotId(end_offset=answer.snapshot.end, epoch=answer.snapshot.epoch)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=METADATA_TOPIC_ID, partitions=[part])])
