"""Between the effect LoadSnapshot and Kafka's FetchSnapshot; loaded with the first snapshot that is wanted."""

from typing import NamedTuple

from hightide.errors import ApiError, ErrorCode
from hightide.limits import SNAPSHOT_PIECE_BYTES
from hightide.replication.quorum_effects import LoadSnapshot
from hightide.replication.snapshots import SnapshotId
from hightide.types import METADATA_TOPIC
from hightide.wire.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotRequestSnapshotId,
    FetchSnapshotRequestTopicSnapshot,
    FetchSnapshotResponse,
)


class SnapshotPiece(NamedTuple):
    """A leader's answer to FetchSnapshot: a part of the file, or why not."""

    error: int
    leader: int
    leader_epoch: int
    snapshot: SnapshotId
    size: int
    position: int
    data: memoryview


def snapshot_request(
    effect: LoadSnapshot, position: int, node_id: int, directory_id: bytes, cluster_id: str
) -> FetchSnapshotRequest:
    """A voter or observer asks for the next piece of a snapshot."""
    asked = FetchSnapshotRequestPartitionSnapshot(
        partition=0,
        current_leader_epoch=effect.epoch,
        snapshot_id=FetchSnapshotRequestSnapshotId(end_offset=effect.snapshot.end, epoch=effect.snapshot.epoch),
        position=position,
        replica_directory_id=directory_id,
    )
    topic = FetchSnapshotRequestTopicSnapshot(name=METADATA_TOPIC, partitions=[asked])
    return FetchSnapshotRequest(
        cluster_id=cluster_id, replica_id=node_id, max_bytes=SNAPSHOT_PIECE_BYTES, topics=[topic]
    )


def snapshot_piece(message: FetchSnapshotResponse) -> SnapshotPiece:
    """The answer; ApiError when it is none for this quorum."""
    if message.error_code:
        raise ApiError(ErrorCode(message.error_code))
    parts = [part for topic in message.topics for part in topic.partitions]
    if len(parts) != 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{len(parts)} partitions where a quorum has one")
    part = parts[0]
    return SnapshotPiece(
        part.error_code,
        part.current_leader.leader_id,
        part.current_leader.leader_epoch,
        SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.size,
        part.position,
        memoryview(part.unaligned_records),
    )
