"""CreateTopics, CreatePartitions, DeleteTopics: what Kafka's controller accepts and refuses, in its words."""

from collections import Counter
from collections.abc import Mapping

import pytest

from hightide.errors import ErrorCode
from hightide.limits import PARTITIONS_PER_TOPIC_MAX, TOPICS_PER_REQUEST_MAX
from hightide.metadata.entities import ResourceType
from hightide.types import METADATA_TOPIC_ID, ZERO_UUID
from hightide.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from hightide.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from hightide.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicState
from tests.metadata_quorum import Quorum, directory_of


@pytest.fixture
def quorum() -> Quorum:
    quorum = Quorum()
    quorum.start(1, 2, 3)
    return quorum


def refusal(quorum: Quorum, name: str, partitions: int = -1, factor: int = -1, **more: object) -> tuple[ErrorCode, str]:
    before = len(quorum.log)
    (result,) = quorum.create(name, partitions, factor, **more).topics  # type: ignore[arg-type]
    assert len(quorum.log) == before
    return ErrorCode(result.error_code), result.error_message or ""


@pytest.mark.covers("T2")
def test_a_topic_is_created_as_asked(quorum: Quorum) -> None:
    (result,) = quorum.create("t", 3, 3, configs={"retention.ms": "5"}).topics
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 3, 3)
    topic = quorum.topic("t")
    assert result.topic_id == topic.topic_id
    assert [partition.replicas for partition in topic.partitions] == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    first = topic.partitions[0]
    assert (first.leader, first.leader_epoch, first.partition_epoch) == (1, 0, 0)
    assert first.in_sync_replicas == first.replicas
    assert first.directories == tuple(directory_of(broker) for broker in (1, 2, 3))
    assert quorum.image.settings_of(ResourceType.TOPIC, "t") == {"retention.ms": "5"}
    told = {config.name: (config.value, config.config_source) for config in result.configs or []}
    assert (told["retention.ms"], told["segment.ms"]) == (("5", 1), ("604800000", 5))


@pytest.mark.covers("T2")
def test_successive_topics_start_at_different_brokers(quorum: Quorum) -> None:
    for name in ("a", "b", "c", "d"):
        quorum.create(name, 1, 1)
        if name == "b":
            quorum.commit(quorum.controller.delete_topics(DeleteTopicsRequest(topic_names=["a"]), 1))
    assert [quorum.partition(name).leader for name in ("b", "c", "d")] == [2, 3, 1]


def test_defaults_come_from_the_brokers_settings() -> None:
    quorum = Quorum({"num.partitions": "4", "default.replication.factor": "2"})
    quorum.start(1, 2)
    quorum.create("t")
    assert len(quorum.topic("t").partitions) == 4
    assert len(quorum.partition("t").replicas) == 2


def test_validating_creates_nothing(quorum: Quorum) -> None:
    before = len(quorum.log)
    (result,) = quorum.create("t", 2, 1, validate_only=True).topics
    assert (result.error_code, result.num_partitions, result.topic_id) == (0, 2, ZERO_UUID)
    assert len(quorum.log) == before
    quorum.create("t", 1, 1)
    assert quorum.partition("t").leader == 1


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("", "Topic name is invalid: the empty string is not allowed"),
        ("..", "Topic name is invalid: '..' is not allowed"),
        ("a b", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("é", "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"),
        ("x" * 250, "is longer than the max allowed length 249"),
    ],
)
def test_names_that_cannot_be(quorum: Quorum, name: str, what: str) -> None:
    code, message = refusal(quorum, name)
    assert code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert message.endswith(what)


def test_names_that_are_taken(quorum: Quorum) -> None:
    quorum.create("a.b", 1, 1)
    assert refusal(quorum, "a.b") == (ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists.")
    collision = (ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b")
    assert refusal(quorum, "a_b") == collision
    assert refusal(quorum, "__cluster_metadata")[0] is ErrorCode.INVALID_REQUEST
    quorum.commit(quorum.controller.delete_topics(DeleteTopicsRequest(topic_names=["a.b"]), 1))
    assert quorum.create("a_b", 1, 1).topics[0].error_code == 0


def test_topics_of_one_request_stand_alone(quorum: Quorum) -> None:
    names = ["x.y", "twice", "x_y", "twice", "good", "bad name"]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    codes = [ErrorCode(result.error_code).name for result in quorum.create_all(topics).topics]
    assert codes == [
        "NONE", "INVALID_REQUEST", "INVALID_TOPIC_EXCEPTION", "INVALID_REQUEST", "NONE", "INVALID_TOPIC_EXCEPTION",
    ]  # fmt: skip
    assert sorted(quorum.image.topic_ids) == ["good", "x.y"]


def test_a_failed_name_takes_nothing(quorum: Quorum) -> None:
    topics = [
        CreatableTopic(name="x.y", num_partitions=1, replication_factor=9),
        CreatableTopic(name="x_y", num_partitions=1, replication_factor=1),
    ]
    assert [result.error_code for result in quorum.create_all(topics).topics] == [38, 0]


@pytest.mark.covers("T14")
def test_more_replicas_than_live_brokers_create_nothing(quorum: Quorum) -> None:
    quorum.commit(quorum.controller.fence_broker(3))
    assert refusal(quorum, "t", 1, 3) == (
        ErrorCode.INVALID_REPLICATION_FACTOR,
        "Unable to replicate the partition 3 time(s): "
        "The target replication factor of 3 cannot be reached because only 2 broker(s) are live.",
    )
    assert quorum.image.topic_named("t") is None


@pytest.mark.covers("T12", "T14")
def test_without_live_brokers_nothing_is_created() -> None:
    code, message = refusal(Quorum(), "t", 1, 1)
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "All brokers are currently fenced" in message


@pytest.mark.parametrize(
    ("partitions", "factor", "code", "what"),
    [
        (0, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (-2, 1, ErrorCode.INVALID_PARTITIONS, "Number of partitions was set to an invalid non-positive value."),
        (1, 0, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1"),
        (1, -2, ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1"),
        (PARTITIONS_PER_TOPIC_MAX + 1, 1, ErrorCode.INVALID_PARTITIONS, "A topic may have at most"),
        (2**31 - 1, 1, ErrorCode.INVALID_PARTITIONS, "A topic may have at most"),
    ],
)
def test_numbers_that_cannot_be(quorum: Quorum, partitions: int, factor: int, code: ErrorCode, what: str) -> None:
    refused, message = refusal(quorum, "t", partitions, factor)
    assert refused is code
    assert message.startswith(what)


def test_a_manual_assignment_is_kept(quorum: Quorum) -> None:
    (result,) = quorum.create("t", assignments={1: [2, 1], 0: [3, 2]}).topics
    assert (result.num_partitions, result.replication_factor) == (2, 2)
    assert [partition.replicas for partition in quorum.topic("t").partitions] == [(3, 2), (2, 1)]
    assert quorum.partition("t").leader == 3


@pytest.mark.parametrize(
    ("assignments", "partitions", "factor", "code", "what"),
    [
        ({0: [1]}, 1, -1, ErrorCode.INVALID_REQUEST, "but numPartitions was not set to -1."),
        ({0: [1]}, -1, 1, ErrorCode.INVALID_REQUEST, "but replication factor was not set to -1."),
        ({0: []}, -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes an empty replica list."),
        (
            {0: [9]},
            -1,
            -1,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "includes broker 9, but no such broker is registered.",
        ),
        ({0: [1, 1]}, -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "includes the broker 1 more than once."),
        ({0: [1], 1: [1, 2]}, -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "which have 1 replica(s)."),
        ({1: [1]}, -1, -1, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "consecutive 0-based integer sequence"),
    ],
)
def test_manual_assignments_that_cannot_be(
    quorum: Quorum, assignments: Mapping[int, list[int]], partitions: int, factor: int, code: ErrorCode, what: str
) -> None:
    refused, message = refusal(quorum, "t", partitions, factor, assignments=assignments)
    assert refused is code
    assert message.endswith(what)


def test_a_fenced_replica_starts_out_of_sync(quorum: Quorum) -> None:
    quorum.commit(quorum.controller.fence_broker(1))
    quorum.create("t", assignments={0: [1, 2]})
    assert (quorum.partition("t").leader, quorum.partition("t").in_sync_replicas) == (2, (2,))
    code, message = refusal(quorum, "u", assignments={0: [1]})
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message.endswith("for partition 0 are fenced or in controlled shutdown.")


@pytest.mark.parametrize(
    ("configs", "what"),
    [
        ({"retention.mss": "1"}, "Unknown topic config name: retention.mss (did you mean 'retention.ms'?)"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
    ],
)
def test_settings_that_cannot_be(quorum: Quorum, configs: Mapping[str, str | None], what: str) -> None:
    assert refusal(quorum, "t", 1, 1, configs=configs) == (ErrorCode.INVALID_CONFIG, what)


def test_lags_of_compaction_that_contradict_each_other(quorum: Quorum) -> None:
    code, message = refusal(quorum, "t", 1, 1, configs={"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"})
    assert code is ErrorCode.INVALID_CONFIG
    assert message == "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)"


def test_too_many_topics_at_once(quorum: Quorum) -> None:
    topics = [CreatableTopic(name=f"t{number}") for number in range(TOPICS_PER_REQUEST_MAX + 1)]
    codes = Counter(result.error_code for result in quorum.create_all(topics).topics)
    assert set(codes) == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.covers("C3")
def test_ids_with_a_meaning_are_not_used(quorum: Quorum) -> None:
    quorum.create("old", 1, 1)
    dash = b"\xf8" + bytes(15)
    good = b"good" + bytes(12)
    ids = iter([ZERO_UUID, METADATA_TOPIC_ID, dash, quorum.topic("old").topic_id, good])
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    quorum.commit(quorum.controller.create_topics(request, lambda: next(ids)))
    assert quorum.topic("t").topic_id == good


def grow(
    quorum: Quorum, name: str, count: int, assignments: list[list[int]] | None = None, validate_only: bool = False
) -> CreatePartitionsTopicResult:
    wish = CreatePartitionsTopic(
        name=name,
        count=count,
        assignments=None if assignments is None else [CreatePartitionsAssignment(broker_ids=b) for b in assignments],
    )
    request = CreatePartitionsRequest(topics=[wish], validate_only=validate_only)
    return quorum.commit(quorum.controller.create_partitions(request)).results[0]


@pytest.mark.covers("C2")
def test_added_partitions_continue_count_and_pattern(quorum: Quorum) -> None:
    quorum.create("other", 1, 1)
    quorum.create("t", 2, 2)
    assert grow(quorum, "t", 5, validate_only=True).error_code == 0
    assert len(quorum.topic("t").partitions) == 2
    assert grow(quorum, "t", 5).error_code == 0
    assert [partition.replicas for partition in quorum.topic("t").partitions] == [
        (2, 3),
        (3, 1),
        (1, 2),
        (2, 1),
        (3, 2),
    ]
    assert [key.partition for key in quorum.delta.partitions] == [2, 3, 4]
    assert grow(quorum, "t", 6, [[1, 3]]).error_code == 0
    assert quorum.partition("t", 5).replicas == (1, 3)


@pytest.mark.parametrize(
    ("name", "count", "assignments", "code", "what"),
    [
        ("none", 3, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition."),
        ("t", 2, None, ErrorCode.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            "t",
            1,
            None,
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        ("t", 99_999, None, ErrorCode.INVALID_PARTITIONS, "A topic may have at most 10000 partitions, not 99999."),
        (
            "t",
            4,
            [[1]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            "t",
            3,
            [[1, 2]],
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes a partition with 2 replica(s), but this is not "
            "consistent with previous partitions, which have 1 replica(s).",
        ),
    ],
)
def test_growth_that_cannot_be(
    quorum: Quorum, name: str, count: int, assignments: list[list[int]] | None, code: ErrorCode, what: str
) -> None:
    quorum.create("t", 2, 1)
    result = grow(quorum, name, count, assignments)
    assert (result.error_code, result.error_message) == (code, what)


def test_growing_a_topic_twice_in_one_request(quorum: Quorum) -> None:
    quorum.create("t", 1, 1)
    wishes = [CreatePartitionsTopic(name="t", count=2), CreatePartitionsTopic(name="t", count=3)]
    reply = quorum.commit(quorum.controller.create_partitions(CreatePartitionsRequest(topics=wishes)))
    assert [result.error_message for result in reply.results] == ["Duplicate topic name."] * 2


def delete(quorum: Quorum, *wishes: DeleteTopicState, version: int = 6) -> list[DeletableTopicResult]:
    return quorum.commit(quorum.controller.delete_topics(DeleteTopicsRequest(topics=list(wishes)), version)).responses


def test_topics_are_deleted_by_name_and_by_id(quorum: Quorum) -> None:
    for name in ("a", "b", "c"):
        quorum.create(name, 1, 1)
    b = quorum.topic("b").topic_id
    results = delete(quorum, DeleteTopicState(name="a"), DeleteTopicState(topic_id=b))
    assert [(result.name, result.error_code) for result in results] == [("a", 0), ("b", 0)]
    assert list(quorum.image.topic_ids) == ["c"]
    old = quorum.commit(quorum.controller.delete_topics(DeleteTopicsRequest(topic_names=["c"]), 1))
    assert [result.error_code for result in old.responses] == [0]


def test_a_topic_made_again_has_a_new_id(quorum: Quorum) -> None:
    quorum.create("t", 1, 1)
    first = quorum.topic("t").topic_id
    delete(quorum, DeleteTopicState(name="t"))
    quorum.create("t", 1, 1)
    assert quorum.topic("t").topic_id != first
    (gone,) = delete(quorum, DeleteTopicState(topic_id=first))
    assert (gone.error_code, gone.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


def test_deletions_that_cannot_be(quorum: Quorum) -> None:
    quorum.create("t", 1, 1)
    topic_id = quorum.topic("t").topic_id
    (unknown,) = delete(quorum, DeleteTopicState(name="x"))
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    (both,) = delete(quorum, DeleteTopicState(name="t", topic_id=topic_id))
    assert both.error_message == "You may not specify both topic name and topic id."
    (neither,) = delete(quorum, DeleteTopicState())
    assert neither.error_message == "Neither topic name nor id were specified."
    twice = delete(quorum, DeleteTopicState(name="t"), DeleteTopicState(topic_id=topic_id))
    assert [result.error_message for result in twice] == [
        "The provided topic name maps to an ID that was already supplied.",
        "Duplicate topic id.",
    ]
    again = delete(quorum, DeleteTopicState(name="t"), DeleteTopicState(name="t"))
    assert [result.error_message for result in again] == ["Duplicate topic name."] * 2
    assert quorum.topic("t").topic_id == topic_id


def test_deletion_can_be_forbidden() -> None:
    quorum = Quorum({"delete.topic.enable": "false"})
    quorum.start(1)
    quorum.create("t", 1, 1)
    assert delete(quorum, DeleteTopicState(name="t"))[0].error_code == ErrorCode.TOPIC_DELETION_DISABLED
    assert delete(quorum, DeleteTopicState(name="t"), version=2)[0].error_code == ErrorCode.INVALID_REQUEST
    assert quorum.topic("t").name == "t"
