"""Brokers that are killed, restarted, put to sleep or lose their disk under the load of stock clients (T20).

Three processes, one cluster for all stories, each on a topic of its own. Whatever happens, each ends the same way: a
fresh client finds every acknowledged value once, in order and where it was promised to be, and all replicas hold the
same bytes.
"""

from random import Random

import pytest

from hightide.errors import ErrorCode
from hightide.testing import Cluster
from tests.chaos.cluster_story import SOME, Story
from tests.history_clients import ConfluentLoad

pytestmark = pytest.mark.xdist_group("processes")  # one cluster of processes at a time is enough for two cores

KILLS = 100
REFUSED = {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS}


def others(node_id: int) -> set[int]:
    return {1, 2, 3} - {node_id}


def controller(cluster: Cluster) -> int:
    while (found := cluster.controller()) is None:
        cluster.wait_for(cluster.controller, "there is a controller")
    return found


@pytest.mark.covers("T20", "C39")
def test_kill_9_of_a_follower(cluster: Cluster) -> None:
    with Story(cluster, topic="follower-killed") as story:
        story.go_on()
        victim = min(others(story.leader()))
        cluster.kill(victim)
        story.go_on()
        cluster.start(victim)
    story.judge()


@pytest.mark.covers("T20", "C39", "T8")
def test_kill_9_of_the_active_controller(cluster: Cluster) -> None:
    with Story(cluster, topic="controller-killed") as story:
        story.go_on()
        victim = controller(cluster)
        cluster.kill(victim)
        cluster.create_topic("made-by-the-next-controller", 3, replication_factor=2)
        assert controller(cluster) != victim
        story.go_on()
        cluster.start(victim)
    story.judge()


@pytest.mark.covers("T20", "C39")
def test_restart_of_one_broker_after_the_other(cluster: Cluster) -> None:
    with Story(cluster, topic="rolling-restart") as story:
        for node in cluster.nodes:
            story.go_on(SOME // 2)
            cluster.restart(node.id)
            cluster.wait_healthy()
    story.judge()


@pytest.mark.covers("T15", "T20", "C39")
def test_the_whole_cluster_is_killed_and_returns_oldest_first(cluster: Cluster) -> None:
    """Who was killed first knows least: it and another one return first, and lead nothing that it lacks."""
    with Story(cluster, topic="all-killed") as story:
        story.go_on()
        oldest = story.leader()
        cluster.kill(oldest)
        story.await_new_leader(oldest)
        story.go_on(SOME // 2)
        newest = max(others(oldest))
        cluster.kill()
        cluster.start(oldest, newest)
        story.go_on(SOME // 2)
        assert story.leader() == newest, "only it has everything"
        cluster.start()
        cluster.wait_healthy()
        assert {tuple(sorted(cluster.in_sync(story.topic, number))) for number in range(3)} == {(1, 2, 3)}
    story.judge()


@pytest.mark.covers("T20", "C13", "C14", "C39")
def test_a_leader_that_sleeps_longer_than_its_session_writes_nothing_when_it_wakes(cluster: Cluster) -> None:
    """What a zombie is sent in its sleep is the first thing it sees, before any news of its replacement."""
    with Story(cluster, topic="zombie", loads=[ConfluentLoad] * 2) as story:  # aiokafka waits half a minute for it
        story.go_on()
        zombie = story.leader()
        cluster.pause(zombie)
        with story.writing_to(zombie) as answer, story.writing_to(zombie, acks=1) as careless_answer:
            story.await_new_leader(zombie)
            story.go_on()
            cluster.resume(zombie)
            assert answer() in REFUSED
            assert careless_answer() in REFUSED
        story.go_on()
    story.judge()


@pytest.mark.covers("T20", "C39")
def test_a_wiped_disk_is_filled_again(cluster: Cluster) -> None:
    with Story(cluster, topic="wiped") as story:
        story.go_on()
        victim = story.leader()
        cluster.kill(victim)
        cluster.wipe(victim)
        cluster.start(victim)
        story.go_on()
        cluster.wait_healthy()
    story.judge()


@pytest.mark.long
@pytest.mark.covers("T15", "T20", "C37", "C39")
@pytest.mark.timeout(3600)
def test_a_hundred_kills_in_one_history(cluster: Cluster) -> None:
    """Leaders, followers, controllers and everybody at once, by lot, while the clients go on."""
    random = Random("a hundred kills")
    kills = 0
    with Story(cluster, topic="hundred-kills") as story:
        while kills < KILLS:
            story.go_on(SOME // 4)
            leader = story.leader(random.randrange(3))
            victims = random.choice(
                [[leader], [min(others(leader))], [controller(cluster)], sorted(others(leader)), [1, 2, 3]]
            )
            cluster.kill(*victims)
            kills += len(victims)
            if len(victims) == 1 and random.random() < 0.7:
                story.go_on(SOME // 4)
            random.shuffle(victims)
            if len(victims) == 3:
                cluster.start(*victims[:2])
            cluster.start()
            if random.random() < 0.7:  # the next kill may meet replicas that are not in sync again
                cluster.wait_healthy()
    story.judge()
