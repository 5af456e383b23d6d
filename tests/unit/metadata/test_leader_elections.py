"""ElectLeaders with Kafka's answers, and leaders that go home by themselves."""

import pytest

from hightide.errors import ErrorCode
from hightide.metadata import balance
from hightide.types import NO_BROKER
from hightide.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from tests.metadata_world import SESSION, World

PREFERRED, UNCLEAN = 0, 1


def elect(world: World, kind: int, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    """The answers by partition; all partitions when none is named."""
    wishes = [TopicPartitions(topic=name, partitions=[number]) for name, number in partitions] or None
    request = ElectLeadersRequest(election_type=kind, topic_partitions=wishes)
    reply = world.commit(world.controller.elect_leaders(request))
    return {(t.topic, p.partition_id): p.error_code for t in reply.replica_election_results for p in t.partition_result}


def test_a_preferred_leader_leads_again() -> None:
    world = World()
    key = world.create("t", [1, 2, 3])
    world.create("u", [2, 3])
    world.pass_time(SESSION, silent=[1])
    assert elect(world, PREFERRED, ("t", 0)) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}
    world.heartbeat(1)
    assert elect(world, PREFERRED, ("t", 0)) == {("t", 0): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE}, "not in sync"
    world.join(key, 1)
    before = world.partition(key).leader_epoch
    assert elect(world, PREFERRED) == {("t", 0): 0}, "of all partitions, those that need it"
    assert (world.partition(key).leader, world.partition(key).leader_epoch) == (1, before + 1)
    assert elect(world, PREFERRED, ("t", 0), ("u", 0)) == {
        ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("u", 0): ErrorCode.ELECTION_NOT_NEEDED,
    }


def test_what_is_not_there_and_what_is_no_election() -> None:
    world = World()
    world.create("t", [1])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(world, PREFERRED, ("x", 0), ("t", 1)) == {("x", 0): unknown, ("t", 1): unknown}
    reply = world.controller.elect_leaders(ElectLeadersRequest(election_type=7)).reply
    assert reply.error_code == ErrorCode.INVALID_REQUEST


def test_an_operator_gives_records_up_for_the_longest_log_that_lives() -> None:
    """R7: always permitted, recorded as a possible loss."""
    world = World(minimum=1)
    key = world.create("t", [1, 2, 3])
    world.produce(key)
    world.leave(key, 2)
    assert world.produce(key, [3])
    world.leave(key, 3)
    assert world.produce(key, [])
    assert elect(world, UNCLEAN, ("t", 0)) == {("t", 0): ErrorCode.ELECTION_NOT_NEEDED}
    world.kill(1)
    world.now += SESSION
    world.heartbeat(2)
    world.heartbeat(3)
    world.commit(world.controller.tick(world.now))
    assert world.partition(key).leader == NO_BROKER
    assert elect(world, UNCLEAN, ("t", 0)) == {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}, "nobody told an end"
    world.heartbeat(2)
    assert elect(world, UNCLEAN, ("t", 0)) == {("t", 0): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}, "3 may have more"
    world.heartbeat(3)
    assert elect(world, UNCLEAN, ("t", 0), ("t", 0)) == {("t", 0): 0}
    assert (world.partition(key).leader, world.losses) == (3, [key])
    assert world.partition(key).last_known_eligible == ()


def test_nobody_lives() -> None:
    world = World()
    world.create("t", [1])
    world.kill(1)
    world.pass_time(SESSION)
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=None)
    result = world.controller.elect_leaders(request).reply.replica_election_results[0].partition_result[0]
    assert result.error_code == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert result.error_message == "No replica of the partition is live."


def test_leaders_go_home_after_a_while() -> None:
    world = World(leader_imbalance_check_interval_seconds="60")
    key = world.create("t", [1, 2, 3])
    world.pass_time(SESSION, silent=[1])
    world.heartbeat(1)
    world.join(key, 1)
    world.pass_time(30)
    assert world.partition(key).leader == 2
    world.pass_time(30)
    assert world.partition(key).leader == 1
    assert set(world.partition(key).in_sync_replicas) == {1, 2, 3}


def test_leaders_stay_when_nobody_wants_them_home() -> None:
    world = World(auto_leader_rebalance_enable="false")
    key = world.create("t", [1, 2, 3])
    world.pass_time(SESSION, silent=[1])
    world.heartbeat(1)
    world.join(key, 1)
    world.now += 1000
    world.beat()
    world.commit(world.controller.tick(world.now))
    assert world.partition(key).leader == 2


def test_many_leaders_go_home_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "MOVES_AT_ONCE_MAX", 2)
    world = World(leader_imbalance_check_interval_seconds="20")
    keys = [world.create(f"t{number}", [1, 2, 3]) for number in range(5)]
    world.pass_time(SESSION, silent=[1])
    world.heartbeat(1)
    for key in keys:
        world.join(key, 1)
    world.now += 14
    world.beat()
    moved = [world.commit(world.controller.tick(world.now)).balanced for _ in range(4)]
    assert moved == [2, 2, 1, 0]
    assert [world.partition(key).leader for key in keys] == [1] * 5
