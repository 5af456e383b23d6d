"""What generated messages share: defaults of their own, equality, text, and refusing what a version cannot say."""

import pytest

from hightide.errors import ProtocolError
from hightide.types import ZERO_UUID
from hightide.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestCursor,
)
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from hightide.wire.messages.group_log import ConsumerGroupMemberMetadataValue
from hightide.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from hightide.wire.messages.metadata_log import RECORDS, PartitionChangeRecord, TopicRecord
from hightide.wire.messages.produce import PartitionProduceData


def test_defaults_are_the_schemas_and_nobody_shares_them() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchTopic())
    first.replica_state.replica_id = 7
    assert second.topics == []
    assert second.replica_state == ReplicaState(replica_id=-1, replica_epoch=-1)
    assert FetchPartition().high_watermark == 2**63 - 1
    assert FetchTopic().topic_id == ZERO_UUID


def test_null_and_empty_differ_where_null_is_allowed() -> None:
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1).topics is None
    assert MetadataRequest.decode(MetadataRequest(topics=[]).encode(1), 1).topics == []
    with pytest.raises(ProtocolError, match="null"):
        MetadataRequest(topics=None).encode(0)


def test_a_field_that_may_not_be_dropped_is_refused() -> None:
    with pytest.raises(ProtocolError, match="allow_auto_topic_creation"):
        MetadataRequest(allow_auto_topic_creation=False).encode(3)
    request = FetchRequest(rack_id="r", session_id=3, session_durability=1)
    assert FetchRequest.decode(request.encode(4), 4).session_id == 0  # ignorable: dropped


def test_unknown_tagged_fields_need_a_flexible_version() -> None:
    request = MetadataRequest(unknown_tagged_fields={44: b"new"})
    assert MetadataRequest.decode(request.encode(9), 9).unknown_tagged_fields == {44: b"new"}
    with pytest.raises(ProtocolError, match="unknown_tagged_fields"):
        request.encode(8)


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ProtocolError, match="FetchRequest version 12"):
        FetchRequest(session_id=2**31).encode(12)


def test_equality_is_by_value_and_messages_have_no_hash() -> None:
    assert FetchTopic(topic="a", partitions=[FetchPartition(partition=1)]) == FetchTopic(
        topic="a", partitions=[FetchPartition(partition=1)]
    )
    assert FetchTopic(topic="a") != FetchTopic(topic="b")
    assert FetchTopic() != FetchPartition()
    with pytest.raises(TypeError):
        hash(FetchTopic())


def test_the_text_holds_no_address() -> None:
    data = PartitionProduceData(index=3, records=memoryview(b"four"))
    assert repr(data) == "PartitionProduceData(index=3, records=<4 bytes>)"
    assert repr(MetadataRequestTopic(name="a", unknown_tagged_fields={9: b""})).endswith(
        "unknown_tagged_fields={9: b''})"
    )


def test_our_own_tagged_field_says_a_sessions_durability() -> None:
    plain, ours = FetchRequest(), FetchRequest(session_durability=1)
    assert FetchRequest.decode(ours.encode(17), 17).session_durability == 1
    assert len(ours.encode(17)) == len(plain.encode(17)) + 4  # two bytes of tag, a length and the value
    assert ours.encode(16) == plain.encode(16)


def test_a_null_structure_is_marked_as_kafka_does() -> None:
    request = DescribeTopicPartitionsRequest()
    assert request.encode(0)[-2:] == b"\xff\x00"
    request.cursor = DescribeTopicPartitionsRequestCursor(topic_name="t", partition_index=2)
    assert DescribeTopicPartitionsRequest.decode(request.encode(0), 0) == request
    # Among tagged fields the mark is another, and a missing field is the default structure, not null.
    assert ConsumerGroupMemberMetadataValue(classic_member_metadata=None).encode(0)[-4:] == b"\x01\x00\x01\x00"
    assert ConsumerGroupMemberMetadataValue().encode(0)[-1:] == b"\x00"


def test_log_records_are_found_by_their_type() -> None:
    assert RECORDS[2] is TopicRecord
    assert all(record.record_type == number for number, record in RECORDS.items())
    assert PartitionChangeRecord().leader == -2
