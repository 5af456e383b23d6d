"""FetchSnapshot (59), versions 0-1: a node that is too far behind for records loads the leader's snapshot (KIP-630).

Pieces of the file as they are on disk, wherever they begin; whoever asks checks the whole. Only the leader answers, in
its epoch, and an answer counts as news of the follower like that to a Fetch. A snapshot that is not there (any more) is
SNAPSHOT_NOT_FOUND, a position outside of it POSITION_OUT_OF_RANGE.
"""

import asyncio
from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.limits import SNAPSHOT_PIECE_BYTES
from hightide.replication.quorum_effects import AnswerSnapshotFetch
from hightide.replication.quorum_events import SnapshotRequested
from hightide.replication.snapshots import SnapshotId
from hightide.types import METADATA_TOPIC
from hightide.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseSnapshotId,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: FetchSnapshotRequest, request: "Request") -> FetchSnapshotResponse:
    """One piece, or why not."""
    if message.cluster_id not in (None, node.directory.identity.cluster_id):
        return FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    asked = [(topic.name, part) for topic in message.topics for part in topic.partitions]
    if len(asked) != 1:
        return FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST)
    name, part = asked[0]
    answer = FetchSnapshotResponsePartitionSnapshot(index=part.partition)
    if (name, part.partition) != (METADATA_TOPIC, 0):
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        await _judge(node, message.replica_id, part, answer)
        if not answer.error_code:
            _fill(node, message, part, answer)
    topic = FetchSnapshotResponseTopicSnapshot(name=name, partitions=[answer])
    return FetchSnapshotResponse(topics=[topic])


async def _judge(
    node: "Node",
    replica_id: int,
    part: FetchSnapshotRequestPartitionSnapshot,
    answer: FetchSnapshotResponsePartitionSnapshot,
) -> None:
    """Whether this node leads in that epoch; who does, either way."""
    verdict: asyncio.Future[AnswerSnapshotFetch] = asyncio.get_running_loop().create_future()
    node.metadata.quorum.tell(
        SnapshotRequested(
            verdict, replica_id, part.current_leader_epoch, node.clock.now(), part.replica_directory_id
        )
    )  # fmt: skip
    effect = await verdict
    answer.error_code = effect.error
    answer.current_leader = LeaderIdAndEpoch(leader_id=effect.leader, leader_epoch=effect.epoch)


def _fill(
    node: "Node",
    message: FetchSnapshotRequest,
    part: FetchSnapshotRequestPartitionSnapshot,
    answer: FetchSnapshotResponsePartitionSnapshot,
) -> None:
    wanted = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
    answer.snapshot_id = FetchSnapshotResponseSnapshotId(end_offset=wanted.end, epoch=wanted.epoch)
    length = max(1, min(message.max_bytes, SNAPSHOT_PIECE_BYTES))
    try:
        snapshot, data = node.metadata.snapshots.piece(message.replica_id, wanted, part.position, length)
    except ApiError as error:
        answer.error_code = error.code
        return
    answer.size, answer.position, answer.unaligned_records = snapshot.size, part.position, data
