"""The five scenarios of C37 on three brokers in processes of their own, with stock clients, judged by the checkers.

Whatever happens, each ends the same way: a fresh client finds every acknowledged value once, in order and where it was
promised to be, all replicas hold the same bytes, and no log has an unexpected line.
"""

from collections.abc import Callable

import pytest

from hightide.errors import ErrorCode
from hightide.testing import Cluster
from tests.chaos.cluster_story import SOME, TOPIC, Story
from tests.history_clients import AiokafkaLoad, ConfluentLoad

pytestmark = pytest.mark.xdist_group("processes")  # one cluster of processes at a time is enough for two cores


@pytest.fixture
def cluster(hightide_cluster: Callable[..., Cluster]) -> Cluster:
    return hightide_cluster(brokers=3, processes=True)


def others(node_id: int) -> set[int]:
    return {1, 2, 3} - {node_id}


@pytest.mark.covers("C37", "C1", "C16", "N10")
def test_normal_sync(cluster: Cluster) -> None:
    with Story(cluster) as story:
        assert {story.leader(partition) for partition in range(3)} == {1, 2, 3}
        story.go_on(3 * SOME)
    story.judge()
    assert [cluster.in_sync(TOPIC, partition) for partition in range(3)] == [{1, 2, 3}] * 3


@pytest.mark.covers("C37", "C21", "C24", "C41", "T20")
def test_the_leader_of_three_replicas_is_killed_and_nothing_is_lost(cluster: Cluster) -> None:
    with Story(cluster) as story:
        story.go_on()
        victim = story.leader()
        cluster.kill(victim)
        successor = story.await_new_leader(victim)
        story.go_on()
        assert cluster.in_sync(TOPIC) == others(victim)
        assert cluster.leader_of(TOPIC) == successor
        cluster.start(victim)
    story.judge()


@pytest.mark.covers("C37", "C22", "C25", "T15", "T20")
def test_a_broker_that_returns_is_no_second_leader(cluster: Cluster) -> None:
    with Story(cluster) as story:
        story.go_on()
        former = story.leader()
        cluster.kill(former)
        successor = story.await_new_leader(former)
        story.go_on()
        cluster.start(former)
        assert story.write_to(former) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        story.go_on()
        cluster.wait_healthy()  # in the eyes of every broker the same leader leads in the same epoch
        assert story.leader() == successor
    story.judge()


@pytest.mark.covers("C37", "C13", "C14", "C34", "T20")
def test_a_partition_cuts_the_leader_off_and_heals(cluster: Cluster) -> None:
    with Story(cluster) as story:
        story.go_on()
        cut_off = story.leader()
        readable = story.readable_at(cut_off)
        cluster.partition({cut_off}, others(cut_off))
        story.await_new_leader(cut_off)
        story.go_on()
        assert story.write_to(cut_off) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert story.readable_at(cut_off) >= readable, "reads below the high watermark go on"
        cluster.heal()
        cluster.wait_healthy()
        story.go_on()
    story.judge()


@pytest.mark.covers("C37", "N10", "N11")
def test_concurrent_producers(cluster: Cluster) -> None:
    with Story(cluster, partitions=2, loads=[ConfluentLoad, AiokafkaLoad] * 3) as story:
        story.go_on(SOME // 2)
        cluster.restart(1)
        story.go_on(SOME // 2)
    story.judge()
    assert len({send.client for send in story.history.sends}) >= 6
