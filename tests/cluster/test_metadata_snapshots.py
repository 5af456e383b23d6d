"""Snapshots on real nodes: whoever missed what the controllers no longer have as records loads it from them.

Three controllers and one broker-only node; the thresholds are so low that a handful of topics is a snapshot.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from hightide.storage.metadata_snapshots import parse_name
from hightide.testing import Cluster
from hightide.wire.records import iterate_headers

SETTINGS = {
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "metadata.max.retention.bytes": "4000",
    "hightide.placement": "round-robin",
}
ANEW = "the metadata log begins anew at"


def log_of(cluster: Cluster, node_id: int) -> Path:
    return cluster.node(node_id).data_directory / "__cluster_metadata-0"


def starts_at(cluster: Cluster, node_id: int) -> int:
    """Where the oldest segment begins: below, there are no records any more."""
    return min(int(path.stem) for path in log_of(cluster, node_id).glob("*.log"))


def ends_at(cluster: Cluster, node_id: int) -> int:
    """How far a node that is down is."""
    newest = max(log_of(cluster, node_id).glob("*.log"))
    headers = list(iterate_headers(newest.read_bytes()))
    return headers[-1][1].next_offset if headers else int(newest.stem)


def snapshots_of(cluster: Cluster, node_id: int) -> list[int]:
    """The ends of its snapshots."""
    parsed = [parse_name(path.name) for path in log_of(cluster, node_id).iterdir()]
    return sorted(found[0] for found in parsed if found is not None)


def grow_past(cluster: Cluster, offset: int, *node_ids: int) -> None:
    """Change a setting until these nodes have no records below that offset."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for number in range(300):
        entry = ConfigEntry("retention.ms", str(10**9 + number), incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result(10)
        if all(starts_at(cluster, node_id) > offset for node_id in node_ids):
            return
    raise AssertionError(f"the logs still begin at {[starts_at(cluster, node_id) for node_id in node_ids]}")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The three controllers run; node 4 has never been started."""
    with_observer = Cluster(brokers=4, controllers=3, settings=SETTINGS)
    try:
        with_observer.start(1, 2, 3)
        with_observer.create_topic("orders", partitions=3)
        yield with_observer
    finally:
        with_observer.close()


def controllers_take_snapshots_and_let_their_logs_go(cluster: Cluster) -> None:
    grow_past(cluster, 0, 1, 2, 3)
    for node_id in (1, 2, 3):
        assert snapshots_of(cluster, node_id), f"node {node_id} took no snapshot"
        assert starts_at(cluster, node_id) > 0
        assert ANEW not in cluster.logs(node_id)


def a_new_broker_loads_the_snapshot(cluster: Cluster) -> None:
    """An observer with an empty disk: the records it would need are gone everywhere."""
    assert min(starts_at(cluster, node_id) for node_id in (1, 2, 3)) > 0
    cluster.start(4)
    cluster.wait_healthy()
    assert ANEW in cluster.logs(4)
    cluster.create_topic("after", assignments={0: [4, 1, 2]})
    cluster.wait_healthy()
    assert cluster.leader_of("after") == 4


def a_node_that_was_down_comes_back(cluster: Cluster, node_id: int, way: str) -> None:
    """It missed topics that were created, and one that was deleted: what it has is what the others have."""
    others = [other for other in (1, 2, 3) if other != node_id]
    known = f"known-{node_id}-{way}"
    cluster.create_topic(known, assignments={0: [node_id, *others[:2]]})
    lives = cluster.logs(node_id).count(ANEW)
    getattr(cluster, way)(node_id)
    grow_past(cluster, ends_at(cluster, node_id), *others)
    cluster.start(node_id)
    cluster.wait_healthy()
    assert cluster.logs(node_id).count(ANEW) == lives + 1
    assert cluster.in_sync(known) == {node_id, *others[:2]}


def the_whole_cluster_starts_from_its_snapshots(cluster: Cluster) -> None:
    cluster.stop()
    cluster.start()
    cluster.wait_healthy()
    assert cluster.leader_of("orders") is not None
    cluster.kill()
    cluster.start()
    cluster.wait_healthy()
    assert cluster.leader_of("orders") is not None


@pytest.mark.covers("T19")
def test_the_life_of_snapshots_on_a_real_cluster(cluster: Cluster) -> None:
    """One story on one cluster, in order: each part begins where the last one ended."""
    controllers_take_snapshots_and_let_their_logs_go(cluster)
    a_new_broker_loads_the_snapshot(cluster)
    for node_id in (3, 4):
        for way in ("stop", "kill"):
            a_node_that_was_down_comes_back(cluster, node_id, way)
    the_whole_cluster_starts_from_its_snapshots(cluster)
