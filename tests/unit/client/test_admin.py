"""Administration: who is asked, in which words, and what becomes of errors."""

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.configs import ConfigSource, Resource, ResourceType, alter_configs, describe_configs
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from hightide.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from hightide.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from hightide.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from hightide.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.unit.client.memory_cluster import MemoryCluster


def created(*codes: ErrorCode) -> CreateTopicsResponse:
    results = [
        CreatableTopicResult(name=f"t{index}", error_code=code, error_message="why" if code else None)
        for index, code in enumerate(codes)
    ]
    return CreateTopicsResponse(topics=results)


def test_every_topic_has_its_own_outcome() -> None:
    memory = MemoryCluster()
    memory.answers[CreateTopicsRequest] = lambda _: created(ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    topics = [NewTopic("t0", 2, 1, {"retention.ms": "1"}), NewTopic("t1", assignments={0: [1, 2]})]
    done = memory.run(Admin(memory.client()).create_topics(topics))
    assert done["t0"] is None
    assert str(done["t1"]) == "TOPIC_ALREADY_EXISTS: why"
    first, second = memory.requests(CreateTopicsRequest)[0].topics
    assert (first.num_partitions, first.configs[0].name) == (2, "retention.ms")
    assert (second.num_partitions, second.replication_factor, second.assignments[0].broker_ids) == (-1, -1, [1, 2])


def test_the_controller_is_looked_up_again() -> None:
    memory = MemoryCluster(brokers=2)
    answers = [created(ErrorCode.NOT_CONTROLLER), created(ErrorCode.NONE)]

    def answer(_: object) -> CreateTopicsResponse:
        memory.brokers.reverse()  # the other one is the controller now
        return answers.pop(0)

    memory.answers[CreateTopicsRequest] = answer
    assert memory.run(Admin(memory.client()).create_topics([NewTopic("t0")])) == {"t0": None}
    assert [broker for broker, request in memory.seen if isinstance(request, CreateTopicsRequest)] == [1, 2]


@pytest.mark.parametrize("version", [5, 6])
def test_topics_are_deleted_in_old_words_and_new(version: int) -> None:
    memory = MemoryCluster()
    memory.versions[DeleteTopicsRequest.api_key] = (1, version)
    memory.answers[DeleteTopicsRequest] = lambda _: DeleteTopicsResponse(responses=[DeletableTopicResult(name="t")])
    assert memory.run(Admin(memory.client()).delete_topics(["t"])) == {"t": None}
    request = memory.requests(DeleteTopicsRequest)[0]
    assert [*request.topic_names, *(topic.name for topic in request.topics)] == ["t"]


def test_records_are_deleted_at_their_leaders() -> None:
    memory = MemoryCluster(brokers=2, topics={"t": 2})

    def answer(request: DeleteRecordsRequest) -> DeleteRecordsResponse:
        partitions = [
            DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=asked.offset)
            for asked in request.topics[0].partitions
        ]
        return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=partitions)])

    memory.answers[DeleteRecordsRequest] = answer
    before = {TopicPartition("t", 0): 3, TopicPartition("t", 1): 5}
    assert memory.run(Admin(memory.client()).delete_records(before)) == before
    assert sorted(broker for broker, request in memory.seen if isinstance(request, DeleteRecordsRequest)) == [1, 2]


def test_settings_tell_where_they_come_from() -> None:
    memory = MemoryCluster(brokers=2)
    configs = [
        DescribeConfigsResourceResult(name="b", value="2", config_source=1),
        DescribeConfigsResourceResult(name="a", value=None, is_sensitive=True, config_source=99),
    ]
    memory.answers[DescribeConfigsRequest] = lambda _: DescribeConfigsResponse(
        results=[DescribeConfigsResult(configs=configs)]
    )
    entries = memory.run(describe_configs(memory.client(), Resource(ResourceType.BROKER, "2")))
    assert [(entry.name, entry.source) for entry in entries] == [
        ("a", ConfigSource.UNKNOWN),
        ("b", ConfigSource.DYNAMIC_TOPIC_CONFIG),
    ]
    assert memory.seen[-1][0] == 2


def test_settings_are_set_and_unset_together() -> None:
    memory = MemoryCluster()
    refused = AlterConfigsResourceResponse(error_code=ErrorCode.INVALID_CONFIG, error_message="no such setting")
    memory.answers[IncrementalAlterConfigsRequest] = lambda _: IncrementalAlterConfigsResponse(responses=[refused])
    with pytest.raises(ApiError, match="INVALID_CONFIG: no such setting"):
        memory.run(alter_configs(memory.client(), Resource(ResourceType.TOPIC, "t"), {"a": "1", "b": None}))
    configs = memory.requests(IncrementalAlterConfigsRequest)[0].resources[0].configs
    assert [(each.name, each.config_operation, each.value) for each in configs] == [("a", 0, "1"), ("b", 1, None)]
