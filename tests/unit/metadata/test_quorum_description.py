"""DescribeQuorum from given facts."""

import pytest

from hightide.errors import ErrorCode
from hightide.metadata.entities import Endpoint
from hightide.metadata.quorum_description import QuorumFacts, QuorumMember, describe_quorum
from hightide.types import METADATA_TOPIC
from hightide.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)

FACTS = QuorumFacts(
    leader_id=1,
    leader_epoch=7,
    high_watermark=90,
    voters=[
        QuorumMember(1, 100, b"d" * 16, 5, 5, (Endpoint("CONTROLLER", "a", 9093),)),
        QuorumMember(2, 90, b"e" * 16, 4, 3),
    ],
    observers=[QuorumMember(4, 80)],
)


def request(topic: str = METADATA_TOPIC, partition: int = 0) -> DescribeQuorumRequest:
    partitions = [DescribeQuorumRequestPartitionData(partition_index=partition)]
    return DescribeQuorumRequest(topics=[DescribeQuorumRequestTopicData(topic_name=topic, partitions=partitions)])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_leader_tells_all_it_knows(version: int) -> None:
    response = DescribeQuorumResponse.decode(describe_quorum(request(), FACTS, version).encode(version), version)
    told = response.topics[0].partitions[0]
    assert (told.error_code, told.leader_id, told.leader_epoch, told.high_watermark) == (0, 1, 7, 90)
    assert [(v.replica_id, v.log_end_offset) for v in told.current_voters] == [(1, 100), (2, 90)]
    assert [o.replica_id for o in told.observers] == [4]
    if version == 2:
        assert [(node.node_id, [x.port for x in node.listeners]) for node in response.nodes] == [(1, [9093]), (2, [])]


def test_somebody_else_is_asked() -> None:
    response = describe_quorum(request(), None, 2)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert response.nodes == []


@pytest.mark.parametrize(("topic", "partition"), [("t", 0), (METADATA_TOPIC, 1)])
def test_there_is_one_quorum(topic: str, partition: int) -> None:
    response = describe_quorum(request(topic, partition), FACTS, 2)
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
