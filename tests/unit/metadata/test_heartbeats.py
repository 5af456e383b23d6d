"""Heartbeats: the table of states, sessions, stops, directories that fail, brokers that come back."""

import pytest

from hightide.errors import ErrorCode
from hightide.metadata.entities import CLUSTER_DEFAULT, ResourceType
from hightide.metadata.replica_states import ReplicaState
from hightide.types import NO_BROKER
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest
from hightide.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.metadata_quorum import Quorum
from tests.metadata_world import SESSION, World


@pytest.fixture
def world() -> World:
    return World()


def ask(world: World, broker_id: int, **wishes: object) -> BrokerHeartbeatResponse:
    fields: dict[str, object] = {
        "broker_id": broker_id,
        "broker_epoch": world.brokers[broker_id].epoch,
        "current_metadata_offset": world.quorum.image.offset,
        **wishes,
    }
    request = BrokerHeartbeatRequest(**fields)  # type: ignore[arg-type]
    return world.commit(world.controller.heartbeat(request, world.now, 0.0))


@pytest.mark.covers("C11")
def test_a_registered_broker_is_unfenced_when_it_does_not_wish_otherwise(world: World) -> None:
    world.register(1)
    assert ask(world, 1, want_fence=True).is_fenced
    reply = ask(world, 1)
    assert (reply.is_fenced, reply.is_caught_up, reply.should_shut_down) == (False, True, False)
    assert world.quorum.image.brokers[1].unfenced_epoch == world.brokers[1].epoch
    assert ask(world, 1, want_fence=True).is_fenced


def test_an_unknown_broker(world: World) -> None:
    request = BrokerHeartbeatRequest(broker_id=9, broker_epoch=0)
    assert world.controller.heartbeat(request, 0.0, 0.0).reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED


def test_a_silent_broker_is_fenced_once(world: World) -> None:
    """C21: where it led somebody else leads, where it followed it leaves, and the same loss elects once."""
    led, followed = world.create("t", [1, 2, 3]), world.create("u", [2, 1, 3])
    world.pass_time(SESSION - 1, silent=[1])
    assert world.partition(led).leader == 1
    world.pass_time(1, silent=[1])
    assert (world.partition(led).leader, world.partition(led).leader_epoch) == (2, 1)
    assert (world.partition(followed).leader_epoch, world.partition(followed).in_sync_replicas) == (0, (2, 3))
    world.pass_time(20, silent=[1])
    assert world.partition(led).leader_epoch == 1
    world.heartbeat(1)
    assert not world.quorum.image.brokers[1].fenced
    assert world.partition(led).leader == 2


def test_brokers_that_fall_silent_together_are_not_elected_in_each_others_place(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    world.pass_time(SESSION, silent=[1, 2])
    assert (world.partition(key).leader, world.partition(key).leader_epoch) == (3, 1)


def test_a_new_controller_gives_everybody_a_whole_session(world: World) -> None:
    """R16: a session may exist before its first heartbeat."""
    key = world.create("t", [1, 2, 3])
    world.pass_time(SESSION - 1, silent=[1])
    world.fail_over()
    world.pass_time(SESSION - 1, silent=[1])
    assert world.partition(key).leader == 1
    world.pass_time(1, silent=[1])
    assert world.partition(key).leader == 2


def test_a_broker_that_was_unfenced_by_another_way_has_a_session_from_the_first_tick() -> None:
    quorum = Quorum()
    quorum.start(1)
    assert quorum.commit(quorum.controller.tick(100.0)).session_ends_at == 106.0
    assert quorum.commit(quorum.controller.tick(105.9)).fenced == ()
    ended = quorum.commit(quorum.controller.tick(106.0))
    assert (ended.fenced, ended.session_ends_at) == ((1,), None)


# ---------------------------------------------------------------------- stopping


def test_a_stop_hands_leaders_over_first_and_waits_until_everybody_knows(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    reply = ask(world, 1, want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced) == (False, False)
    assert (world.partition(key).leader, world.partition(key).in_sync_replicas) == (2, (2, 3))
    assert not ask(world, 1, want_shut_down=True).should_shut_down
    world.beat(silent=[1])
    reply = ask(world, 1, want_shut_down=True)
    assert (reply.should_shut_down, reply.is_fenced, reply.lease_age_ms) == (True, True, -1)
    assert ask(world, 1, want_shut_down=True).should_shut_down
    assert world.partition(key).leader_epoch == 1


def test_a_broker_that_leads_nothing_stops_at_once(world: World) -> None:
    key = world.create("t", [1, 2, 3])
    assert ask(world, 3, want_shut_down=True).should_shut_down
    assert world.partition(key).in_sync_replicas == (1, 2)


def test_a_fenced_broker_stops_at_once(world: World) -> None:
    world.register(1)
    assert ask(world, 1, want_shut_down=True).should_shut_down


def test_the_last_broker_stops_and_leads_again() -> None:
    world = World(brokers=1)
    key = world.create("t", [1])
    assert world.produce(key)
    assert not ask(world, 1, want_shut_down=True).should_shut_down
    assert (world.partition(key).leader, world.partition(key).eligible_leader_replicas) == (NO_BROKER, (1,))
    assert ask(world, 1, want_shut_down=True).should_shut_down
    world.start(1)
    assert (world.partition(key).leader, world.losses) == (1, [])


# ---------------------------------------------------------------------- replicas and directories


def test_an_offline_directory_takes_its_replicas_out_of_both_sets(world: World) -> None:
    """R10: with another directory left the broker lives on."""
    one, two = b"one".ljust(16), b"two".ljust(16)
    request = BrokerRegistrationRequest(
        broker_id=4, incarnation_id=b"i" * 16, log_dirs=[one, two], previous_broker_epoch=-1
    )
    reply = world.commit(world.controller.register_broker(request, len(world.quorum.log), now=0.0))

    def beat(**fields: object) -> BrokerHeartbeatResponse:
        wishes = {"broker_id": 4, "broker_epoch": reply.broker_epoch, "current_metadata_offset": 10**6, **fields}
        decision = world.controller.heartbeat(BrokerHeartbeatRequest(**wishes), 0.0, 0.0)  # type: ignore[arg-type]
        return world.quorum.commit(decision)

    beat()
    key = world.create("t", [4, 1])
    world.quorum.controller.replay([_with_directory(world, key, 4, one)], len(world.quorum.log), 1)
    beat(offline_log_dirs=[one])
    partition = world.partition(key)
    assert (partition.leader, partition.in_sync_replicas) == (1, (1,))
    assert (partition.eligible_leader_replicas, partition.last_known_eligible) == ((), (4,))
    assert world.quorum.image.brokers[4].directories == (two,)
    assert not world.quorum.image.brokers[4].fenced
    assert beat(offline_log_dirs=[one, two]).is_fenced
    assert beat(offline_log_dirs=[one, two]).is_fenced


def _with_directory(world: World, key, broker_id: int, directory: bytes):  # type: ignore[no-untyped-def]
    partition = world.partition(key)
    return partition.change_to(partition.with_directory(broker_id, directory), *key)


def test_a_closed_follower_leaves_and_a_closed_leader_hands_over(world: World) -> None:
    """C8: min.insync.replicas decides whether writes go on."""
    key = world.create("t", [1, 2, 3])
    world.close(3, key, ReplicaState.NOT_READY)
    assert world.partition(key).in_sync_replicas == (1, 2)
    world.close(1, key, ReplicaState.NOT_READY)
    assert (world.partition(key).leader, world.partition(key).in_sync_replicas) == (2, (2,))
    assert world.partition(key).eligible_leader_replicas == (1,)


def test_a_replica_that_could_not_be_opened_leads_when_it_can(world: World) -> None:
    key = world.create("t", [1])
    world.close(1, key, ReplicaState.NOT_READY)
    assert (world.partition(key).leader, world.partition(key).eligible_leader_replicas) == (NO_BROKER, (1,))
    world.brokers[1].unready.clear()
    world.heartbeat(1)
    assert (world.partition(key).leader, world.losses) == (1, [])


def test_a_corrupt_replica_is_out_until_it_has_been_refetched(world: World) -> None:
    """R17."""
    key = world.create("t", [1, 2, 3])
    assert world.produce(key)
    world.close(1, key, ReplicaState.QUARANTINED)
    assert world.partition(key).members == (2, 3)
    at = len(world.quorum.log)
    world.heartbeat(1)
    assert len(world.quorum.log) == at, "told again, nothing changes"
    assert world.fetch(key, 1)
    world.heartbeat(1)
    assert world.join(key, 1)


def test_the_only_member_stays_eligible_though_it_cannot_lead(world: World) -> None:
    """R17: the partition is offline, nothing is given up."""
    key = world.create("t", [1, 2], min_insync_replicas="1")
    world.leave(key, 2)
    world.close(1, key, ReplicaState.QUARANTINED)
    partition = world.partition(key)
    assert (partition.leader, partition.eligible_leader_replicas, partition.last_known_eligible) == (
        NO_BROKER,
        (1,),
        (),
    )
    world.fail_over()
    world.pass_time(3)
    assert world.partition(key).leader == NO_BROKER


def test_each_find_of_corruption_makes_one_leader_epoch(world: World) -> None:
    """R17: it begins anew in one in which it never fetched, also when it rots again before it is known as well."""
    key = world.create("t", [1, 2, 3])
    for epoch in (1, 2, 3):
        world.close(3, key, ReplicaState.QUARANTINED)
        assert (world.partition(key).leader, world.partition(key).leader_epoch) == (1, epoch)
        world.fail_over()
        world.heartbeat(3)
        assert world.partition(key).leader_epoch == epoch, "told again, to a new controller"


# ---------------------------------------------------------------------- coming and going


def test_a_quick_restart_needs_no_session_to_end_but_another_disk_does(world: World) -> None:
    assert world.register(1)
    world.heartbeat(1)
    world.wipe(1)
    assert not world.register(1)
    world.pass_time(SESSION)
    assert world.register(1)


def test_another_cluster_is_refused() -> None:
    quorum = Quorum()
    controller = type(quorum.controller)(quorum.image, quorum.controller.settings, cluster_id="ours")
    request = BrokerRegistrationRequest(broker_id=1, cluster_id="theirs", log_dirs=[b"d" * 16])
    assert controller.register_broker(request, 0).reply.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_the_same_registration_again_changes_nothing(world: World) -> None:
    broker = world.quorum.image.brokers[1]
    request = BrokerRegistrationRequest(
        broker_id=1, incarnation_id=broker.incarnation_id, log_dirs=list(broker.directories), is_unclean=True
    )
    decision = world.controller.register_broker(request, len(world.quorum.log), now=0.0)
    assert (decision.records, decision.reply.broker_epoch) == ([], broker.epoch)


def test_an_unregistered_broker_is_forgotten_and_in_doubt(world: World) -> None:
    key = world.create("t", [1, 2])
    assert world.produce(key)
    world.kill(1)
    world.kill(2)
    world.pass_time(SESSION)
    assert world.partition(key).eligible_leader_replicas == (1, 2)
    reply = world.commit(world.controller.unregister_broker(UnregisterBrokerRequest(broker_id=1)))
    assert (reply.error_code, 1 in world.quorum.image.brokers) == (0, False)
    assert (world.partition(key).eligible_leader_replicas, world.partition(key).last_known_eligible) == ((2,), (1,))
    again = world.controller.unregister_broker(UnregisterBrokerRequest(broker_id=1))
    assert (again.records, again.reply.error_code) == ([], ErrorCode.BROKER_ID_NOT_REGISTERED)


def test_allowing_unclean_elections_elects_where_nobody_leads(world: World) -> None:
    key = world.create("t", [1, 2], min_insync_replicas="1")
    world.leave(key, 2)
    world.kill(1)
    world.pass_time(SESSION)
    assert world.partition(key).leader == NO_BROKER
    world.configure(ResourceType.BROKER, CLUSTER_DEFAULT, unclean_leader_election_enable="true")
    assert (world.partition(key).leader, world.losses) == (2, [key])


def test_settings_that_change_together_are_judged_together(world: World) -> None:
    """R23: the topic's own minimum goes and the cluster's falls in one request; nobody stays eligible by mistake."""
    from hightide.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    key = world.create("t", [1, 2], min_insync_replicas="2")
    world.leave(key, 2)
    assert world.partition(key).eligible_leader_replicas == (2,)
    name = "min.insync.replicas"
    request = IncrementalAlterConfigsRequest(
        resources=[
            AlterConfigsResource(
                resource_type=ResourceType.TOPIC,
                resource_name="t",
                configs=[AlterableConfig(name=name, config_operation=1, value=None)],
            ),
            AlterConfigsResource(
                resource_type=ResourceType.BROKER, resource_name="", configs=[AlterableConfig(name=name, value="1")]
            ),
        ]
    )
    world.commit(world.controller.incremental_alter_configs(request))
    assert world.partition(key).eligible_leader_replicas == ()
