"""Readiness of replicas, and what the creator of a topic waits for (C8-C10)."""

import pytest

from hightide.metadata.readiness import Readiness
from hightide.metadata.replica_states import ReplicaState
from hightide.types import PartitionKey
from tests.metadata_world import SESSION, World


def states(world: World, key: PartitionKey) -> list[Readiness]:
    return [replica.state for replica in world.controller.readiness(key)]


PENDING, READY, NOT_READY = Readiness.PENDING, Readiness.READY, Readiness.NOT_READY


@pytest.mark.covers("C8")
def test_a_replica_is_pending_until_its_broker_reports_and_then_ready_or_not_with_the_reason() -> None:
    world = World()
    world.beat()
    key = world.create("t", [1, 2, 3])
    assert states(world, key) == [PENDING, PENDING, PENDING]
    world.heartbeat(1)
    world.close(2, key, ReplicaState.NOT_READY)
    assert states(world, key) == [READY, NOT_READY, PENDING]
    assert str(world.controller.readiness(key)[1]) == "partition 0: broker 2 is not ready: found now"
    assert world.partition(key).in_sync_replicas == (1, 3), "an unready follower leaves"
    assert world.controller.readiness(PartitionKey(key.topic_id, 9)) == []


def test_what_the_creator_waits_for() -> None:
    world = World()
    key = world.create("t", [1, 2, 3])

    def awaited(wait: str) -> list[int]:
        return [replica.broker_id for replica in world.controller.awaited([key.topic_id], wait)]

    assert (awaited("none"), awaited("leaders"), awaited("all")) == ([], [1], [1, 2, 3])
    world.heartbeat(1)
    assert (awaited("leaders"), awaited("all")) == ([], [2, 3])
    world.heartbeat(2)
    world.heartbeat(3)
    assert awaited("all") == []
    assert world.controller.awaited([bytes(16)], "all") == [], "a topic that is gone is not waited for"


def test_the_leader_that_is_waited_for_is_the_current_one() -> None:
    world = World()
    key = world.create("t", [1, 2])
    world.kill(1)
    world.pass_time(SESSION)
    assert world.controller.awaited([key.topic_id], "leaders") == []
    world.kill(2)
    world.pass_time(SESSION)
    (nobody,) = world.controller.awaited([key.topic_id], "leaders")
    assert str(nobody) == "partition 0: no broker leads it"


def test_a_new_controller_knows_after_one_heartbeat_of_each() -> None:
    world = World()
    key = world.create("t", [1, 2])
    world.beat()
    world.fail_over()
    assert states(world, key) == [PENDING, PENDING]
    world.beat()
    assert states(world, key) == [READY, READY]


def test_old_creations_are_forgotten_and_a_restarted_broker_is_pending_again() -> None:
    world = World()
    key = world.create("t", [1, 2])
    world.pass_time(2)
    assert states(world, key) == [READY, READY]
    world.register(1)
    assert states(world, key) == [PENDING, READY]
    world.heartbeat(1)
    assert states(world, key) == [READY, READY]
    from hightide.wire.messages.delete_topics import DeleteTopicsRequest

    world.commit(world.controller.delete_topics(DeleteTopicsRequest(topic_names=["t"]), 1))
    assert world.controller.readiness(key) == []
