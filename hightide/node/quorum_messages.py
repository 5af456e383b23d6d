"""Between the quorum machine's events and effects and Kafka's messages: Vote, Begin/EndQuorumEpoch and Fetch.

Each of these requests can name many partitions; a quorum has one, `__cluster_metadata-0`.
"""

from typing import TypeVar

from hightide.errors import ApiError, ErrorCode
from hightide.replication.quorum_effects import (
    AnswerBeginEpoch,
    AnswerEndEpoch,
    AnswerVote,
    FetchFrom,
    SendBeginEpoch,
    SendEndEpoch,
    SendVote,
)
from hightide.replication.quorum_events import LeaderAnnounced, LeaderResigned, VoteAnswered, VoteRequested
from hightide.types import METADATA_TOPIC, METADATA_TOPIC_ID
from hightide.wire.messages import begin_quorum_epoch as begin
from hightide.wire.messages import end_quorum_epoch as end
from hightide.wire.messages import vote
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

T = TypeVar("T")
FETCH_WAIT_MS = 500
FETCH_BYTES_MAX = 8 * 1024 * 1024


def vote_request(effect: SendVote, node_id: int, directory_id: bytes, cluster_id: str) -> vote.VoteRequest:
    """A candidate's question."""
    asked = vote.VoteRequestPartitionData(
        partition_index=0,
        replica_epoch=effect.epoch,
        replica_id=node_id,
        replica_directory_id=directory_id,
        voter_directory_id=effect.voter_directory_id,
        last_offset_epoch=max(effect.last_epoch, 0),
        last_offset=effect.end,
        pre_vote=effect.pre_vote,
        all_voters=effect.all_voters,
    )
    topic = vote.VoteRequestTopicData(topic_name=METADATA_TOPIC, partitions=[asked])
    return vote.VoteRequest(cluster_id=cluster_id, voter_id=effect.to, topics=[topic])


def vote_requested(message: vote.VoteRequest, request: object, now: float) -> VoteRequested:
    """The same as an event at the voter."""
    asked = _only([part for topic in message.topics for part in topic.partitions])
    return VoteRequested(
        request, asked.replica_id, asked.replica_epoch, asked.last_offset_epoch, asked.last_offset, asked.pre_vote,
        now, asked.replica_directory_id, asked.voter_directory_id, asked.all_voters,
    )  # fmt: skip


def vote_response(effect: AnswerVote) -> vote.VoteResponse:
    """The voter's answer."""
    answer = vote.VoteResponsePartitionData(
        partition_index=0,
        error_code=effect.error,
        leader_id=effect.leader,
        leader_epoch=effect.epoch,
        vote_granted=effect.granted,
        last_offset_epoch=effect.last_epoch,
        last_offset=effect.end,
        is_doubtful=effect.doubtful,
    )
    return vote.VoteResponse(topics=[vote.VoteResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answer])])


def vote_answered(message: vote.VoteResponse, asked: SendVote, now: float) -> VoteAnswered:
    """The same as an event at the candidate."""
    answer = _only([part for topic in message.topics for part in topic.partitions])
    return VoteAnswered(
        asked.to, answer.leader_id, answer.leader_epoch, answer.vote_granted, asked.pre_vote, now,
        answer.last_offset_epoch, answer.last_offset, answer.is_doubtful,
    )  # fmt: skip


def begin_request(effect: SendBeginEpoch, node_id: int, cluster_id: str) -> begin.BeginQuorumEpochRequest:
    """A leader announces itself."""
    told = begin.BeginQuorumEpochRequestPartitionData(
        partition_index=0,
        voter_directory_id=effect.voter_directory_id,
        leader_id=node_id,
        leader_epoch=effect.epoch,
    )
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[told])
    return begin.BeginQuorumEpochRequest(cluster_id=cluster_id, voter_id=effect.to, topics=[topic])


def leader_announced(message: begin.BeginQuorumEpochRequest, request: object, now: float) -> LeaderAnnounced:
    """The same as an event at a voter."""
    told = _only([part for topic in message.topics for part in topic.partitions])
    return LeaderAnnounced(request, told.leader_id, told.leader_epoch, now, told.voter_directory_id)


def begin_response(effect: AnswerBeginEpoch) -> begin.BeginQuorumEpochResponse:
    """What a voter believes now."""
    answer = begin.BeginQuorumEpochResponsePartitionData(
        partition_index=0, error_code=effect.error, leader_id=effect.leader, leader_epoch=effect.epoch
    )
    topic = begin.BeginQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answer])
    return begin.BeginQuorumEpochResponse(topics=[topic])


def end_request(effect: SendEndEpoch, node_id: int, cluster_id: str) -> end.EndQuorumEpochRequest:
    """A leader resigns."""
    told = end.EndQuorumEpochRequestPartitionData(
        partition_index=0,
        leader_id=node_id,
        leader_epoch=effect.epoch,
        preferred_candidates=[end.ReplicaInfo(candidate_id=successor) for successor in effect.successors],
    )
    topic = end.EndQuorumEpochRequestTopicData(topic_name=METADATA_TOPIC, partitions=[told])
    return end.EndQuorumEpochRequest(cluster_id=cluster_id, topics=[topic])


def leader_resigned(message: end.EndQuorumEpochRequest, request: object, now: float) -> LeaderResigned:
    """The same as an event at a voter; older versions name plain ids."""
    told = _only([part for topic in message.topics for part in topic.partitions])
    named = [info.candidate_id for info in told.preferred_candidates] or told.preferred_successors
    return LeaderResigned(request, told.leader_id, told.leader_epoch, tuple(named), now)


def end_response(effect: AnswerEndEpoch) -> end.EndQuorumEpochResponse:
    """What a voter believes now."""
    answer = end.EndQuorumEpochResponsePartitionData(
        partition_index=0, error_code=effect.error, leader_id=effect.leader, leader_epoch=effect.epoch
    )
    topic = end.EndQuorumEpochResponseTopicData(topic_name=METADATA_TOPIC, partitions=[answer])
    return end.EndQuorumEpochResponse(topics=[topic])


def leader_and_epoch(message: begin.BeginQuorumEpochResponse | end.EndQuorumEpochResponse) -> tuple[int, int]:
    """Whom the answering node takes for the leader, and in which epoch."""
    for topic in message.topics:
        for part in topic.partitions:
            return part.leader_id, part.leader_epoch
    raise ApiError(ErrorCode(message.error_code or ErrorCode.INVALID_REQUEST))


def fetch_request(effect: FetchFrom, node_id: int, directory_id: bytes, cluster_id: str) -> FetchRequest:
    """A voter or observer asks for more of the metadata log."""
    asked = FetchPartition(
        partition=0,
        current_leader_epoch=effect.epoch,
        fetch_offset=effect.offset,
        last_fetched_epoch=effect.last_epoch,
        partition_max_bytes=FETCH_BYTES_MAX,
        replica_directory_id=directory_id,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=node_id),
        max_wait_ms=FETCH_WAIT_MS,
        min_bytes=1,
        max_bytes=FETCH_BYTES_MAX,
        session_epoch=-1,
        topics=[FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[asked])],
    )


def _only(parts: list[T]) -> T:
    if len(parts) != 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{len(parts)} partitions where a quorum has one")
    return parts[0]
