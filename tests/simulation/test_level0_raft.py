"""Random lives of the elected quorum at level 0: every seed keeps every invariant and comes to rest after healing."""

from collections import Counter

import pytest

from hightide.sim.level0.raft_campaign import RaftRun, run_raft
from hightide.sim.level0.raft_faults import RaftFaults
from hightide.sim.level0.raft_world import RaftWorld
from tests.simulation.seeds import LONG, QUICK, named


def kept(run: RaftRun) -> RaftRun:
    assert run.violation is None, f"seed {run.seed}: {run.message}"
    return run


def campaign(seeds: range) -> None:
    runs = [kept(run_raft(seed)) for seed in seeds]
    assert sum(run.counts for run in runs) >= 0.7 * len(runs), "too many runs in which too little happens"


@pytest.mark.covers("T8", "N8", "C22", "C23", "C41")
@pytest.mark.parametrize("portion", QUICK["quorum"], ids=named)
def test_every_seed_keeps_the_invariants(portion: range) -> None:
    campaign(portion)


@pytest.mark.long
@pytest.mark.parametrize("portion", LONG["quorum"], ids=named)
def test_many_seeds_keep_the_invariants(portion: range) -> None:
    campaign(portion)


def test_the_same_seed_is_the_same_run() -> None:
    first, second, other = run_raft(7, seconds=20), run_raft(7, seconds=20), run_raft(8, seconds=20)
    assert (first.digest, first.events) == (second.digest, second.events)
    assert other.digest != first.digest


def test_keeping_the_timeline_changes_nothing() -> None:
    silent, told = run_raft(7, seconds=20), run_raft(7, seconds=20, keeps_timeline=True)
    assert silent.digest == told.digest
    assert not silent.timeline
    assert any("leader" in line for line in told.timeline)


def test_all_kinds_of_faults_strike() -> None:
    struck: Counter[str] = Counter()
    for seed in range(12):
        world = RaftWorld(seed, voters=5, observers=1)
        world.start()
        faults = RaftFaults(world, until=30.0, seconds_between=0.5)
        world.kernel.run(30.0)
        struck.update(faults.struck)
    assert struck.keys() == {
        "kill", "lose_power", "lose_power_everywhere", "pause", "isolate", "split", "deafen", "slow_disk",
        "bad_network", "resign", "cast_doubt", "doubt_everybody", "wipe",
    }  # fmt: skip


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
def test_without_faults_one_leader_stays(voters: int) -> None:
    world = RaftWorld(3, voters=voters, observers=1)
    world.start()
    world.kernel.run(20.0)
    world.check_liveness()
    assert world.elections == 1


def test_a_dead_leader_is_replaced_within_a_moment() -> None:
    """Its process is gone, so nobody waits for a time-out (and everybody would refuse if it were not)."""
    world = RaftWorld(4, voters=3)
    world.start()
    world.kernel.run(5.0)
    (leader,) = world.leaders()
    leader.kill()
    world.kernel.run(5.5)
    assert [node.id for node in world.leaders()] != []
    assert world.elections == 2


def test_a_silent_leader_is_replaced_after_a_fetch_time_out() -> None:
    world = RaftWorld(4, voters=3)
    world.start()
    world.kernel.run(5.0)
    (leader,) = world.leaders()
    leader.paused_until = 60.0
    world.kernel.run(5.0 + world.timeouts.fetch + 2 * world.timeouts.election + 0.5)
    assert [node.id for node in world.leaders() if node is not leader] != []


@pytest.mark.parametrize("seed", [14054, 14662])
def test_a_leader_whose_votes_came_late_is_no_loss(seed: int) -> None:
    """A newer epoch had committed more by then, which the late one need not have."""
    run = run_raft(seed)
    assert run.violation is None, run.message
