"""Each invariant of the quorum reports its planted violation."""

from collections.abc import Callable

import pytest

from hightide.replication.quorum import Role
from hightide.replication.snapshots import SnapshotId
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.raft_log import Batch
from hightide.sim.level0.raft_node import RaftNode
from hightide.sim.level0.raft_world import RaftWorld


def settled() -> tuple[RaftWorld, RaftNode, RaftNode]:
    """Three voters after some seconds: the world, its leader and one follower."""
    world = RaftWorld(1)
    world.start()
    world.kernel.run(3.0)
    (leader,) = world.leaders()
    follower = next(node for node in world.nodes.values() if node is not leader)
    return world, leader, follower


def two_leaders(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    assert leader.machine is not None
    world.invariants.elected(follower, leader.machine.epoch)


def an_older_vote(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.stored(follower, follower.stored_epoch - 1, -1)


def another_vote_in_the_same_epoch(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.stored(leader, leader.stored_epoch, follower.id)


def a_falling_high_watermark(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.moved(leader, 0, world.invariants.committed_end - 1, is_leader=True)


def a_high_watermark_nobody_reached(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    end = leader.log.end
    leader.log.append([Batch(end, end + 1, leader.log.last_epoch, 1_000_000)])
    world.invariants.moved(leader, end, end + 1, is_leader=True)


def a_start_without_a_snapshot(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    follower.log.advance_start(1)
    world.invariants.snapshot_at_start(follower, None)


def a_snapshot_of_another_epoch(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.snapshot_at_start(follower, SnapshotId(1, 99))


def a_leader_that_loads_a_snapshot(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.snapshot_installed(leader, SnapshotId(1, 1), is_leader=True)


def other_records(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    follower.log.batches[0] = follower.log.batches[0]._replace(value=1_000_000)
    world.invariants.moved(follower, 0, world.invariants.committed_end, is_leader=False)


def a_leader_without_a_committed_record(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    follower.log.truncate(1)
    world.invariants.elected(follower, 99)


def a_role_out_of_nowhere(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.roles(leader, Role.UNATTACHED)


def a_committed_record_cut(world: RaftWorld, leader: RaftNode, follower: RaftNode) -> None:
    world.invariants.truncated(follower, 1)


PLANTED: list[tuple[str, Callable[[RaftWorld, RaftNode, RaftNode], None]]] = [
    ("I10", a_committed_record_cut),
    ("I13", two_leaders),
    ("I14", an_older_vote),
    ("I14", another_vote_in_the_same_epoch),
    ("I15", a_falling_high_watermark),
    ("I16", a_high_watermark_nobody_reached),
    ("I17", a_start_without_a_snapshot),
    ("I17", a_snapshot_of_another_epoch),
    ("I18", a_leader_that_loads_a_snapshot),
    ("I19", other_records),
    ("I20", a_leader_without_a_committed_record),
    ("I21", a_role_out_of_nowhere),
]


@pytest.mark.parametrize(("name", "plant"), PLANTED, ids=lambda part: getattr(part, "__name__", part))
def test_it_is_reported(name: str, plant: Callable[[RaftWorld, RaftNode, RaftNode], None]) -> None:
    with pytest.raises(InvariantError) as caught:
        plant(*settled())
    assert caught.value.name == name


def test_liveness_wants_a_leader_and_new_commits() -> None:
    world, _, _ = settled()
    world.blocked = {(a, b) for a in world.nodes for b in world.nodes}
    with pytest.raises(InvariantError, match="nothing was committed after healing"):
        world.check_liveness()
