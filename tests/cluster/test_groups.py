"""Consumer groups of three engines on three brokers: shared, resumed, and moved with their coordinator."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from hightide.coordination.partitioning import partition_of
from hightide.testing import Cluster
from hightide.testing.places import OFFSETS_PARTITIONS
from hightide.types import OFFSETS_TOPIC
from tests.group_clients import ENGINES, CooperativeMember, GroupMember, wait_until

PARTITIONS = 6

pytestmark = pytest.mark.xdist_group("groups")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def written(cluster: Cluster, topic: str, count: int, start: int = 0) -> set[bytes]:
    """Values, acknowledged when this returns."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 1, "log_level": 0})
    values = [b"%d" % number for number in range(start, start + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return set(values)


def values_of(*members: GroupMember) -> list[bytes]:
    return [value for member in members for _, _, _, value in member.records]


@pytest.mark.covers("N5", "N9", "C29")
@pytest.mark.parametrize("engine", ENGINES)
def test_members_share_a_topic_and_a_group_resumes_where_it_was(cluster: Cluster, engine: str) -> None:
    member = ENGINES[engine]
    topic = f"shared-{engine}"
    cluster.create_topic(topic, PARTITIONS)
    values = written(cluster, topic, 120)
    with (
        member(cluster.bootstrap, f"group-{engine}", topic) as one,
        member(cluster.bootstrap, f"group-{engine}", topic) as two,
    ):
        wait_until(lambda: set(values_of(one, two)) == values, "everything is read", one, two)
        wait_until(
            lambda: one.owned and two.owned and not one.owned & two.owned and len(one.owned | two.owned) == PARTITIONS,
            "both have their share",
            one,
            two,
        )
        more = written(cluster, topic, 60, start=1000)
        wait_until(lambda: more <= set(values_of(one, two)), "the rest is read", one, two)
        assert sorted(value for value in values_of(one, two) if value in more) == sorted(more), "handled once each"
    last = written(cluster, topic, 60, start=2000)
    with (
        member(cluster.bootstrap, f"group-{engine}", topic) as again,
        member(cluster.bootstrap, f"another-{engine}", topic) as other,
    ):
        wait_until(lambda: last <= set(values_of(again)), "it goes on", again)
        wait_until(lambda: values | more | last == set(values_of(other)), "another group sees all", other)
        assert set(values_of(again)) == last, "nothing that was committed is read again"


def test_cooperative_members_keep_what_stays_theirs(cluster: Cluster) -> None:
    topic = "cooperative"
    cluster.create_topic(topic, PARTITIONS)
    values = written(cluster, topic, 60)
    with CooperativeMember(cluster.bootstrap, "cooperative", topic) as one:
        wait_until(lambda: set(values_of(one)) == values, "everything is read", one)
        before = len(one.changes) - 1
        with CooperativeMember(cluster.bootstrap, "cooperative", topic) as two:
            wait_until(lambda: len(two.owned) == PARTITIONS // 2, "it has its share", two)
            more = written(cluster, topic, 60, start=1000)
            wait_until(lambda: more <= set(values_of(one, two)), "the rest is read", one, two)
        assert len(one.changes) > before + 1
        assert all(one.changes[before:]), "it never gave everything away"
    assert sorted(values_of(one, two)) == sorted(values | more)


def test_a_static_member_returns_and_nobody_notices(cluster: Cluster) -> None:
    topic = "static"
    cluster.create_topic(topic, PARTITIONS)
    values = written(cluster, topic, 60)
    member = ENGINES["librdkafka"]
    with member(cluster.bootstrap, "static", topic, instance="b") as stays:
        with member(cluster.bootstrap, "static", topic, instance="a") as one:
            wait_until(lambda: set(values_of(stays, one)) == values, "everything is read", stays, one)
            wait_until(lambda: len(one.owned) == len(stays.owned) == PARTITIONS // 2, "both have a share", one, stays)
            share, changes = one.owned, len(stays.changes)
        more = written(cluster, topic, 60, start=1000)
        with member(cluster.bootstrap, "static", topic, instance="a") as again:
            wait_until(lambda: more <= set(values_of(stays, again)), "the rest is read", stays, again)
            assert again.owned == share
        assert len(stays.changes) == changes, "the other one had no rebalance"
        assert sorted(values_of(stays, again)) == sorted(set(values_of(stays)) | set(values_of(again)))


@pytest.mark.covers("C26", "C29")
def test_members_go_on_when_their_coordinator_stops(cluster: Cluster) -> None:
    topic, group = "moving", "moving"
    cluster.create_topic(topic, PARTITIONS)
    written(cluster, topic, 60)
    member = ENGINES["librdkafka"]
    with member(cluster.bootstrap, group, topic) as one, member(cluster.bootstrap, group, topic) as two:
        wait_until(lambda: len(one.owned) == len(two.owned) == PARTITIONS // 2, "both have their share", one, two)
        coordinator = cluster.leader_of(OFFSETS_TOPIC, partition_of(group, OFFSETS_PARTITIONS))
        assert coordinator is not None
        changes = len(one.changes), len(two.changes)
        cluster.stop(coordinator)
        more = written(cluster, topic, 60, start=1000)
        wait_until(lambda: more <= set(values_of(one, two)), "the rest is read", one, two)
        cluster.start(coordinator)
        cluster.wait_healthy()
        last = written(cluster, topic, 60, start=2000)
        wait_until(lambda: last <= set(values_of(one, two)), "the last is read", one, two)
        assert (len(one.changes), len(two.changes)) == changes, "nobody had a rebalance"
    assert sorted(values_of(one, two)) == sorted(set(values_of(one)) | set(values_of(two))), "handled once each"
