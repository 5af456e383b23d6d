"""DescribeQuorum: the metadata quorum as its leader sees it, for tools. The facts come from the quorum's replica."""

from collections.abc import Sequence
from typing import NamedTuple

from hightide.errors import ErrorCode
from hightide.metadata.entities import Endpoint
from hightide.types import METADATA_TOPIC, NO_TIMESTAMP, ZERO_UUID
from hightide.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)


class QuorumMember(NamedTuple):
    """A voter or an observer. Times are of the wall clock in milliseconds, -1 when there is none."""

    node_id: int
    log_end: int
    directory_id: bytes = ZERO_UUID
    last_fetch_ms: int = NO_TIMESTAMP
    last_caught_up_ms: int = NO_TIMESTAMP
    endpoints: tuple[Endpoint, ...] = ()


class QuorumFacts(NamedTuple):
    """The quorum now. Only its leader knows how far the others are."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: Sequence[QuorumMember]
    observers: Sequence[QuorumMember] = ()


FIRST_VERSION_WITH_DIRECTORIES = 2  # and with the voters' addresses


def describe_quorum(request: DescribeQuorumRequest, facts: QuorumFacts | None, version: int) -> DescribeQuorumResponse:
    """The response. `facts` is None where this node does not lead the quorum: whoever asks must look for the leader."""
    if facts is not None and version < FIRST_VERSION_WITH_DIRECTORIES:
        facts = facts._replace(
            voters=[member._replace(directory_id=ZERO_UUID) for member in facts.voters],
            observers=[member._replace(directory_id=ZERO_UUID) for member in facts.observers],
        )
    asked = [(topic.topic_name, p.partition_index) for topic in request.topics for p in topic.partitions]
    topics = []
    for topic in request.topics:
        partitions = [_partition(topic.topic_name, p.partition_index, facts) for p in topic.partitions]
        topics.append(DescribeQuorumResponseTopicData(topic_name=topic.topic_name, partitions=partitions))
    is_told = version >= FIRST_VERSION_WITH_DIRECTORIES and (METADATA_TOPIC, 0) in asked
    nodes = [_node(voter) for voter in facts.voters] if facts is not None and is_told else []
    return DescribeQuorumResponse(error_message=None, topics=topics, nodes=nodes)


def _partition(topic: str, partition: int, facts: QuorumFacts | None) -> DescribeQuorumResponsePartitionData:
    told = DescribeQuorumResponsePartitionData(partition_index=partition, error_message=None)
    if topic != METADATA_TOPIC or partition != 0:
        told.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    elif facts is None:
        told.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        told.leader_id, told.leader_epoch = facts.leader_id, facts.leader_epoch
        told.high_watermark = facts.high_watermark
        told.current_voters = [_state(member) for member in facts.voters]
        told.observers = [_state(member) for member in facts.observers]
    return told


def _state(member: QuorumMember) -> ReplicaState:
    return ReplicaState(
        replica_id=member.node_id,
        replica_directory_id=member.directory_id,
        log_end_offset=member.log_end,
        last_fetch_timestamp=member.last_fetch_ms,
        last_caught_up_timestamp=member.last_caught_up_ms,
    )


def _node(member: QuorumMember) -> Node:
    listeners = [Listener(name=e.name, host=e.host, port=e.port) for e in member.endpoints]
    return Node(node_id=member.node_id, listeners=listeners)
