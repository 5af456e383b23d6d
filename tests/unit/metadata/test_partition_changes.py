"""AlterPartition: the order of its checks and what it commits (R5, R6, R7)."""

import pytest

from hightide.errors import ErrorCode
from hightide.metadata.entities import LOST_DIRECTORY
from hightide.metadata.replica_states import ReplicaState
from hightide.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from tests.metadata_world import World


@pytest.fixture
def world() -> World:
    return World()


def test_leaving_and_joining_move_the_partition_epoch_and_not_the_leader_epoch(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    reply = world.propose(key, [1, 2])
    assert (reply.error_code, reply.isr, reply.partition_epoch, reply.leader_epoch) == (0, [1, 2], 1, 0)
    assert world.partition(key).eligible_leader_replicas == ()
    reply = world.propose(key, [1])
    assert (reply.isr, world.partition(key).eligible_leader_replicas) == ([1], (2,))
    assert world.join(key, 3)
    assert world.partition(key).in_sync_replicas == (1, 3)
    assert world.partition(key).eligible_leader_replicas == ()


def test_the_answer_names_the_controllers_epoch(world: World) -> None:
    assert world.controller.alter_partition(AlterPartitionRequest(broker_id=9)).reply.controller_epoch == 1


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"leader_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"partition_epoch": 9}, ErrorCode.NOT_CONTROLLER),
        ({"leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
        ({"sender": 3}, ErrorCode.INVALID_REQUEST),
        ({"partition_epoch": 1}, ErrorCode.INVALID_UPDATE_VERSION),
        ({"members": [3]}, ErrorCode.INVALID_REQUEST),
        ({"members": [2, 2]}, ErrorCode.INVALID_REQUEST),
        ({"members": [2, 4]}, ErrorCode.INVALID_REQUEST),
        ({"members": [2, 1]}, ErrorCode.INELIGIBLE_REPLICA),
        ({"epochs": {2: -1}}, ErrorCode.STALE_BROKER_EPOCH),
    ],
    ids=str,
)
def test_refusals_in_their_order(change: dict[str, object], answer: ErrorCode) -> None:
    """Broker 1 led and is fenced: broker 2 leads in leader epoch 1."""
    world = World(brokers=4)
    key = world.create("t", [1, 2, 3])
    world.pass_time(7, silent=[1])
    assert (world.partition(key).leader, world.partition(key).leader_epoch) == (2, 1)
    world.leave(key, 3)
    arguments = {"members": [2, 3], **change}
    assert world.propose(key, **arguments).error_code == answer  # type: ignore[arg-type]


def test_what_is_not_there(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    request = AlterPartitionRequest(
        broker_id=1,
        broker_epoch=world.brokers[1].epoch,
        topics=[
            AlterPartitionRequestTopicData(
                topic_id=topic_id, partitions=[AlterPartitionRequestPartitionData(partition_index=5)]
            )
            for topic_id in (bytes(16), key.topic_id)
        ],
    )
    reply = world.controller.alter_partition(request).reply
    answers = [topic.partitions[0].error_code for topic in reply.topics]
    assert answers == [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_two_proposals_in_one_request_are_compared_one_after_the_other(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    wishes = [
        AlterPartitionRequestPartitionData(
            new_isr_with_epochs=[BrokerState(broker_id=m, broker_epoch=world.brokers[m].epoch) for m in members]
        )
        for members in ([1, 2], [1, 3])
    ]
    topic = AlterPartitionRequestTopicData(topic_id=key.topic_id, partitions=wishes)
    request = AlterPartitionRequest(broker_id=1, broker_epoch=world.brokers[1].epoch, topics=[topic])
    reply = world.commit(world.controller.alter_partition(request))
    assert [p.error_code for p in reply.topics[0].partitions] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert world.partition(key).in_sync_replicas == (1, 2)


def test_the_committed_set_again_changes_nothing(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    at = len(world.quorum.log)
    assert world.propose(key, [3, 2, 1]).error_code == 0
    assert len(world.quorum.log) == at


def test_version_2_names_no_lives_so_nobody_joins_by_it(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    world.leave(key, 3)
    epoch = world.partition(key).partition_epoch

    def ask(members: list[int]) -> int:
        wish = AlterPartitionRequestPartitionData(new_isr=members, partition_epoch=epoch)
        topic = AlterPartitionRequestTopicData(topic_id=key.topic_id, partitions=[wish])
        request = AlterPartitionRequest(broker_id=1, broker_epoch=world.brokers[1].epoch, topics=[topic])
        return world.controller.alter_partition(request).reply.topics[0].partitions[0].error_code

    assert ask([1, 2, 3]) == ErrorCode.INELIGIBLE_REPLICA
    assert ask([1]) == ErrorCode.NONE


def test_a_life_before_the_current_one_does_not_join(world: World) -> None:
    """KIP-903: a follower that restarted after it had caught up is not what was meant."""
    key = world.create("t", [1, 2, 3])
    old = world.brokers[3].epoch
    world.start(3)
    refused = world.propose(key, [1, 2, 3], epochs={3: old})
    assert refused.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert world.join(key, 3)


def test_a_stopping_broker_and_a_closed_replica_do_not_join(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    other = world.create("u", [3, 1])
    world.leave(key, 3)
    world.close(3, key, ReplicaState.NOT_READY)
    assert world.fetch(key, 3)
    assert world.propose(key, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA
    world.heartbeat(3)
    assert world.partition(other).leader == 3
    world.heartbeat(3, want_shut_down=True)
    assert world.propose(key, [1, 2, 3]).error_code == ErrorCode.INELIGIBLE_REPLICA


def test_a_replica_that_joins_again_has_what_it_had_lost(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    world.wipe(3)
    world.pass_time(7)
    world.start(3)
    assert world.partition(key).directory_of(3) == LOST_DIRECTORY
    assert world.join(key, 3)
    assert world.partition(key).directory_of(3) == world.brokers[3].disk.directory
