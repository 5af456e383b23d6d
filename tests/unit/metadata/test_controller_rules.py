"""Each rule that the controller keeps, turned off: a trace holds with the rule, and an invariant breaks without it.

The invariants are those of `World`; no trace asks about the rule itself. Rules whose absence shows in answers only are
below the table.
"""

from collections.abc import Callable

import pytest

from hightide.errors import ErrorCode
from hightide.metadata.entities import CLUSTER_DEFAULT, ResourceType
from hightide.metadata.replay import MetadataError
from hightide.metadata.replica_states import ReplicaState
from hightide.rules import ALL_ON
from hightide.types import PartitionKey
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from hightide.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.metadata_quorum import EPOCH, Quorum
from tests.metadata_world import SESSION, ViolationError, World

LONGER = SESSION + 1


def replicated(world: World, replicas: list[int]) -> PartitionKey:
    key = world.create("t", replicas, hightide_durability="replicated")
    assert all(world.produce(key) for _ in range(3))
    return key


def synced(world: World, replicas: list[int], **configs: str) -> PartitionKey:
    key = world.create("t", replicas, **configs)
    assert all(world.produce(key) for _ in range(3))
    return key


def both_stop(world: World) -> None:
    world.kill(1)
    world.kill(2)
    world.pass_time(LONGER)


def a_fenced_broker_is_proposed(world: World) -> None:
    key = synced(world, [1, 2, 3])
    world.pass_time(LONGER, silent=[3])
    assert world.fetch(key, 3)
    world.propose(key, [1, 2, 3])


def a_delayed_attempt_arrives_after_its_retry(world: World) -> None:
    key = synced(world, [1, 2, 3])
    world.leave(key, 3)
    old = world.partition(key).partition_epoch
    world.join(key, 3)
    world.leave(key, 3)
    assert world.produce(key, [2])
    world.propose(key, [1, 2, 3], partition_epoch=old)


def a_delayed_attempt_arrives_after_a_refusal(world: World) -> None:
    key = synced(world, [1, 2, 3])
    world.leave(key, 3)
    assert world.fetch(key, 3)
    old = world.partition(key).partition_epoch
    world.pass_time(LONGER, silent=[3])
    refused = world.propose(key, [1, 2, 3])
    assert refused.error_code == ErrorCode.INELIGIBLE_REPLICA
    assert world.produce(key, [2])
    world.heartbeat(3)
    world.propose(key, [1, 2, 3], partition_epoch=old)


def a_laggard_is_all_that_is_left(world: World) -> None:
    key = synced(world, [1, 2, 3])
    world.kill(1)
    world.pass_time(LONGER)
    assert world.produce(key)
    world.start(1)
    world.kill(2)
    world.kill(3)
    world.pass_time(LONGER)


def a_laggard_leaves_a_set_that_is_large_enough(world: World) -> None:
    key = synced(world, [1, 2, 3])
    world.leave(key, 3)


def a_member_loses_its_memory(world: World) -> None:
    replicated(world, [1, 2])
    world.power_loss(2)
    world.start(2)


def the_first_to_come_back_has_less(world: World) -> None:
    key = replicated(world, [1, 2])
    world.flush(2, key)
    acked = set(world.acked[key])
    world.power_loss(1)
    world.power_loss(2)
    world.start(1)
    world.pass_time(LONGER)
    world.register(2)
    world.beat()
    world.expect_kept(key, acked)


def the_only_disk_is_replaced(world: World) -> None:
    key = synced(world, [1])
    acked = set(world.acked[key])
    world.wipe(1)
    world.pass_time(LONGER)
    world.start(1)
    world.expect_kept(key, acked)


def the_second_replica_has_the_longer_log(world: World) -> None:
    key = replicated(world, [1, 2])
    world.flush(2, key)
    acked = set(world.acked[key])
    world.power_loss(1)
    world.power_loss(2)
    world.start(1)
    world.start(2)
    world.beat()
    world.expect_kept(key, acked)


def only_a_laggard_lives(world: World) -> None:
    key = synced(world, [1, 2], min_insync_replicas="1")
    world.leave(key, 2)
    assert world.produce(key, [])
    acked = set(world.acked[key])
    world.kill(1)
    world.pass_time(LONGER)
    world.expect_kept(key, acked)


def a_quick_restart_after_a_power_loss(world: World) -> None:
    replicated(world, [1, 2])
    world.power_loss(1)
    world.start(1)
    world.check()


def a_member_comes_back_with_another_disk(world: World) -> None:
    synced(world, [1, 2])
    both_stop(world)
    world.wipe(1)
    world.brokers[1].disk.epoch = world.brokers[1].epoch  # whoever replaced the disk kept the file with the epoch
    world.start(1)


def a_member_comes_back_with_an_old_copy_of_its_disk(world: World) -> None:
    key = synced(world, [1, 2])
    backup = world.brokers[1].disk.copy()
    world.kill(1)
    world.start(1)
    world.join(key, 1)
    assert world.produce(key)
    both_stop(world)
    world.restore(1, backup)
    world.start(1)


def a_member_comes_back(state: ReplicaState) -> Callable[[World], None]:
    def trace(world: World) -> None:
        key = synced(world, [1, 2])
        both_stop(world)
        world.damage(1, key, state)
        world.start(1)

    return trace


def everybody_loses_power(world: World) -> None:
    key = replicated(world, [1, 2])
    world.flush(2, key)
    world.power_loss(1)
    world.power_loss(2)
    world.pass_time(LONGER)
    world.start(1)


def a_leader_cannot_read_its_log(world: World) -> None:
    key = synced(world, [1, 2, 3])
    world.close(1, key, ReplicaState.QUARANTINED)
    world.expect_led(key)


def the_only_log_is_corrupt_and_repaired(world: World) -> None:
    key = synced(world, [1])
    world.close(1, key, ReplicaState.QUARANTINED)
    world.repair(1, key)
    world.start(1)
    world.expect_led(key)


def the_minimum_is_lowered(world: World) -> None:
    key = synced(world, [1, 2])
    world.leave(key, 2)
    world.configure(ResourceType.TOPIC, "t", min_insync_replicas="1")
    assert world.produce(key, [])
    world.kill(1)
    world.pass_time(LONGER)


def a_switch_to_fsync_and_a_power_loss(world: World) -> None:
    key = replicated(world, [1, 2])
    world.flush(2, key)
    world.configure(ResourceType.TOPIC, "t", hightide_durability="fsync")
    world.power_loss(1)
    world.power_loss(2)
    world.pass_time(LONGER)
    world.start(1)


TRACES: dict[str, tuple[Callable[[World], None], set[str]]] = {
    "r5_join_live_only": (a_fenced_broker_is_proposed, {"I9"}),
    "r6_compare_and_set": (a_delayed_attempt_arrives_after_its_retry, {"I2"}),
    "r6_refusal_ends_attempts": (a_delayed_attempt_arrives_after_a_refusal, {"I2"}),
    "r7_leader_has_everything": (a_laggard_is_all_that_is_left, {"I1"}),
    "r7_eligible_empty_at_minimum": (a_laggard_leaves_a_set_that_is_large_enough, {"I9"}),
    "r7_removed_are_not_eligible": (a_member_loses_its_memory, {"I9", "I2"}),
    "r7_all_last_known_back": (the_first_to_come_back_has_less, {"I7"}),
    "r7_lost_never_return": (the_only_disk_is_replaced, {"I7"}),
    "r7_longest_log_leads": (the_second_replica_has_the_longer_log, {"I7"}),
    "r7_unclean_only_if_allowed": (only_a_laggard_lives, {"I7"}),
    "r8_new_epoch_every_start": (a_quick_restart_after_a_power_loss, {"I1", "I2"}),
    "r8_other_directory_is_lost": (a_member_comes_back_with_another_disk, {"I1", "I2"}),
    "r8_older_epoch_is_lost": (a_member_comes_back_with_an_old_copy_of_its_disk, {"I1", "I2"}),
    "r8_short_log_is_lost": (a_member_comes_back(ReplicaState.BELOW_HIGH_WATERMARK), {"I1", "I2"}),
    "r8_unclean_replicated_leaves": (everybody_loses_power, {"I1", "I2"}),
    "r10_unready_replicas_leave": (a_leader_cannot_read_its_log, {"liveness"}),
    "r17_doubtful_replicas_leave": (a_member_comes_back(ReplicaState.DOUBTFUL), {"I1", "I2"}),
    "r17_last_member_stays": (the_only_log_is_corrupt_and_repaired, {"liveness"}),
    "r23_minimum_recomputes_eligible": (the_minimum_is_lowered, {"I9"}),
    "r23_switch_waits_for_reports": (a_switch_to_fsync_and_a_power_loss, {"I1", "I2"}),
}


@pytest.mark.parametrize("name", TRACES)
def test_the_trace_holds_with_the_rule(name: str) -> None:
    TRACES[name][0](World())


@pytest.mark.parametrize("name", TRACES)
def test_an_invariant_breaks_without_the_rule(name: str) -> None:
    trace, invariants = TRACES[name]
    with pytest.raises(ViolationError) as violated:
        trace(World(ALL_ON.without(name)))
    assert violated.value.name in invariants, violated.value


@pytest.mark.parametrize(("is_on", "answer"), [(True, ErrorCode.NONE), (False, ErrorCode.INVALID_UPDATE_VERSION)])
def test_a_retry_whose_answer_was_lost_is_told_that_it_succeeded(is_on: bool, answer: ErrorCode) -> None:
    """R6, KAFKA-14144."""
    world = World(ALL_ON if is_on else ALL_ON.without("r6_identical_retry_succeeds"))
    key = synced(world, [1, 2, 3])
    before = world.partition(key).partition_epoch
    world.leave(key, 3)
    assert world.propose(key, [1, 2], partition_epoch=before).error_code == answer


@pytest.mark.parametrize(("is_on", "answer"), [(True, ErrorCode.FENCED_LEADER_EPOCH), (False, ErrorCode.NONE)])
def test_a_former_leader_is_not_told_that_it_succeeded(is_on: bool, answer: ErrorCode) -> None:
    """R6: the epochs come before the identity."""
    world = World(ALL_ON if is_on else ALL_ON.without("r6_epochs_before_identity"))
    key = synced(world, [1, 2, 3])
    before = world.partition(key)
    world.commit(world.controller.fence_broker(1))
    world.heartbeat(1)
    told = world.propose(
        key, [2, 3], sender=1, leader_epoch=before.leader_epoch, partition_epoch=before.partition_epoch
    )
    assert told.error_code == answer


@pytest.mark.parametrize(("is_on", "fenced"), [(True, True), (False, False)])
def test_a_broker_is_fenced_until_it_has_replayed_its_own_registration(is_on: bool, fenced: bool) -> None:
    """R8."""
    world = World(ALL_ON if is_on else ALL_ON.without("r8_unfence_after_replay"))
    world.register(1)
    request = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=world.brokers[1].epoch, current_metadata_offset=world.brokers[1].epoch - 1
    )
    response = world.commit(world.controller.heartbeat(request, world.now, 0.0))
    assert (response.is_caught_up, response.is_fenced) == (False, fenced)


@pytest.mark.parametrize(("is_on", "answer"), [(True, ErrorCode.STALE_BROKER_EPOCH), (False, ErrorCode.NONE)])
def test_a_former_life_does_not_keep_the_new_one_alive(is_on: bool, answer: ErrorCode) -> None:
    """R8, MISSION 5.11."""
    world = World(ALL_ON if is_on else ALL_ON.without("r8_former_life_is_refused"))
    old = world.brokers[1].epoch
    world.start(1)
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=old, current_metadata_offset=0)
    assert world.controller.heartbeat(request, world.now, 0.0).reply.error_code == answer


def test_commands_are_judged_on_what_was_appended() -> None:
    """R24: of two commands in flight for one name the second sees the first; judged on the committed image it can't."""

    def create_twice(quorum: Quorum) -> list[int]:
        quorum.start(1)
        request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
        first = quorum.controller.create_topics(request, quorum.new_id)
        quorum.controller.replay(first.records, len(quorum.log) + len(first.records) - 1, EPOCH)
        second = quorum.controller.create_topics(request, quorum.new_id)
        quorum.controller.replay(second.records, len(quorum.log) + len(first.records) + len(second.records) - 1, EPOCH)
        return [decision.reply.topics[0].error_code for decision in (first, second)]

    assert create_twice(Quorum()) == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
    with pytest.raises(MetadataError):
        create_twice(Quorum(rules=ALL_ON.without("r24_judge_appended")))


def test_a_switch_counts_when_every_member_has_reported() -> None:
    """R23: afterwards a power loss takes nobody out."""
    world = World()
    key = replicated(world, [1, 2])
    world.configure(ResourceType.BROKER, CLUSTER_DEFAULT, hightide_durability="fsync")
    assert world.partition(key).whole_logs_synced  # the topic's own setting still says replicated
    world.configure(ResourceType.TOPIC, "t", hightide_durability="fsync")
    assert not world.partition(key).whole_logs_synced
    assert world.report_synced(key)
    assert world.partition(key).whole_logs_synced
    world.power_loss(1)
    world.power_loss(2)
    world.pass_time(LONGER)
    world.start(1)
    assert (world.partition(key).leader, world.losses) == (1, [])


def test_a_report_does_not_speak_for_the_eligible() -> None:
    """R23: whoever left the in-sync set has not reported; from then on it is one of the last known."""
    world = World()
    key = replicated(world, [1, 2])
    world.leave(key, 2)
    assert world.partition(key).eligible_leader_replicas == (2,)
    world.configure(ResourceType.TOPIC, "t", hightide_durability="fsync")
    before = world.partition(key).partition_epoch
    assert world.report_synced(key)
    after = world.partition(key)
    assert (after.whole_logs_synced, after.partition_epoch) == (True, before + 1)
    assert (after.eligible_leader_replicas, after.last_known_eligible) == ((), (2,))
    world.join(key, 2)
    assert world.partition(key).last_known_eligible == ()
