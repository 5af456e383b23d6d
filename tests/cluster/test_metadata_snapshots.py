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


def admin_of(cluster: Cluster, *node_ids: int) -> AdminClient:
    """A stock client of nodes that run."""
    return AdminClient({"bootstrap.servers": ",".join(cluster.node(node_id).address for node_id in node_ids)})


def topic_id_of(cluster: Cluster, node_id: int, topic: str) -> str:
    """Whose log a node has under a topic's name."""
    return (cluster.node(node_id).data_directory / f"{topic}-0" / "partition.metadata").read_text().split("\n")[1]


def grow_past(cluster: Cluster, offset: int, *node_ids: int) -> None:
    """Change a setting until these nodes have no records below that offset."""
    admin = admin_of(cluster, *node_ids)
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


def every_node_writes_the_same_snapshot(cluster: Cluster) -> None:
    """Of the same offset: the same bytes."""
    files: dict[str, set[bytes]] = {}
    for node_id in (1, 2, 3):
        for path in log_of(cluster, node_id).glob("*.checkpoint"):
            files.setdefault(path.name, set()).add(path.read_bytes())
    assert files
    assert {name for name, contents in files.items() if len(contents) > 1} == set()


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
    """Meanwhile topics were created, deleted, and made anew: what it has is what the others have."""
    others = [other for other in (1, 2, 3) if other != node_id]
    kept, gone, anew, new = (f"{what}-{node_id}-{way}" for what in ("kept", "gone", "anew", "new"))
    members = [node_id, *others[:2]]
    for name in (kept, gone, anew):
        cluster.create_topic(name, assignments={0: members})
    old_id = topic_id_of(cluster, node_id, anew)
    loads = cluster.logs(node_id).count(ANEW)
    getattr(cluster, way)(node_id)
    admin = admin_of(cluster, *others)
    for name, done in admin.delete_topics([gone, anew]).items():
        assert done.result(10) is None, name
    for name in (anew, new):
        cluster.create_topic(name, assignments={0: [*others[:2], node_id]})
    grow_past(cluster, ends_at(cluster, node_id), *others)
    cluster.start(node_id)
    cluster.wait_healthy()
    assert cluster.logs(node_id).count(ANEW) == loads + 1
    for name in (kept, anew, new):
        assert cluster.in_sync(name) == set(members)
    data = cluster.node(node_id).data_directory
    cluster.wait_for(lambda: not (data / f"{gone}-0").exists(), f"node {node_id} deletes {gone}")
    assert topic_id_of(cluster, node_id, anew) != old_id


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
    every_node_writes_the_same_snapshot(cluster)
    a_new_broker_loads_the_snapshot(cluster)
    for node_id in (3, 4):
        for way in ("stop", "kill"):
            a_node_that_was_down_comes_back(cluster, node_id, way)
    the_whole_cluster_starts_from_its_snapshots(cluster)
