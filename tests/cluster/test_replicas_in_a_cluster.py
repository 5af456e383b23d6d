"""What people see of a cluster's replicas: who waits for them, who may read them, how they are connected."""

import json
import socket
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from hightide.errors import ErrorCode
from hightide.testing import Cluster
from hightide.testing.places import BROKERS_PROXY
from tests.chaos.raw_client import RawClient
from tests.group_clients import wait_until
from tests.requests import fetch, values_of

MakeCluster = Callable[..., Cluster]
NODES = {1, 2, 3}
OPERATION_SECONDS = 1.5
PROC_ESTABLISHED = "01"
LONG_SESSION = {"broker.session.timeout.ms": "60000"}  # nobody is fenced because the test cuts it off


def create(cluster: Cluster, via: int, name: str, replicas: list[int]) -> None:
    """Through one broker; KafkaException as the controller says."""
    admin = AdminClient({"bootstrap.servers": cluster.node(via).address})
    topic = NewTopic(name, num_partitions=1, replica_assignment=[replicas])
    admin.create_topics([topic], operation_timeout=OPERATION_SECONDS, request_timeout=30)[name].result()


def produced(cluster: Cluster, topic: str, values: int, acks: str = "all") -> None:
    """Values of one partition, acknowledged when this returns."""
    failed: list[KafkaError] = []
    settings = {"bootstrap.servers": cluster.bootstrap, "acks": acks, "log_level": 0, "reconnect.backoff.max.ms": 100}
    producer = Producer(settings)

    def delivered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(error)

    for number in range(values):
        producer.produce(topic, b"%d" % number, partition=0, on_delivery=delivered)
    assert producer.flush(40) == 0
    assert failed == []


@pytest.mark.covers("C9", "C10")
@pytest.mark.parametrize(
    ("wait", "unready", "is_answered"),
    [
        ("none", "leader", True),
        ("leaders", "follower", True),
        ("leaders", "leader", False),
        ("all", "follower", False),
    ],
)
def test_the_creator_waits_for_what_was_chosen(
    hightide_cluster: MakeCluster, wait: str, unready: str, is_answered: bool
) -> None:
    """One broker does not hear of the topic. Whoever waits for it is told that time is up; nobody loses anything."""
    cluster = hightide_cluster(brokers=3, settings={"hightide.create.wait": wait, **LONG_SESSION})
    controller = cluster.controller()
    deaf = min(NODES - {controller})
    others = sorted(NODES - {deaf})
    cluster.partition({deaf}, set(others))
    replicas = [deaf, *others] if unready == "leader" else [*others, deaf]
    if is_answered:
        create(cluster, others[0], "t", replicas)
    else:
        with pytest.raises(KafkaException) as refused:
            create(cluster, others[0], "t", replicas)
        assert refused.value.args[0].code() == KafkaError.REQUEST_TIMED_OUT
    if unready == "leader":
        with RawClient(
            int(cluster.node(deaf).address.rpartition(":")[2]), host=cluster.node(deaf).place.host
        ) as client:
            ((answer,),) = [topic.partitions for topic in client.call(fetch("t"), 12).responses]
        assert ErrorCode(answer.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # a client asks again
    cluster.heal()
    produced(cluster, "t", 10)
    cluster.wait_healthy()
    assert cluster.in_sync("t") == NODES


@pytest.mark.covers("C19")
def test_followers_refuse_consumers(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster(brokers=3)
    cluster.create_topic("t", assignments={0: [2, 3, 1]})
    produced(cluster, "t", 5)
    for node_id in NODES:
        place = cluster.node(node_id).place
        with RawClient(place.port, host=place.host) as client:
            answer = client.call(fetch("t"), 12)
        ((partition,),) = [topic.partitions for topic in answer.responses]
        if node_id == 2:
            assert values_of(answer) == [b"0", b"1", b"2", b"3", b"4"]
        else:
            assert ErrorCode(partition.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert not partition.records


@pytest.mark.covers("C18")
def test_connections_between_brokers_do_not_grow_with_partitions(hightide_cluster: MakeCluster) -> None:
    """At most one for each durability in use, from every follower to every leader."""
    cluster = hightide_cluster(brokers=3)
    cluster.create_topic("synced", 3, replication_factor=3)
    cluster.wait_healthy()
    few = {(source, target): 1 for source in NODES for target in NODES if source != target}
    await_connections(cluster, few)
    cluster.create_topic("many", 40, replication_factor=3)
    cluster.wait_healthy()
    await_connections(cluster, few)
    cluster.create_topic("replicated", 40, replication_factor=3, configs={"hightide.durability": "replicated"})
    cluster.wait_healthy()
    await_connections(cluster, dict.fromkeys(few, 2))


def await_connections(cluster: Cluster, expected: Mapping[tuple[int, int], int]) -> None:
    """Until brokers are connected just so, by no more and no less.

    A cluster is healthy before that: a new partition is in sync from the start, and whoever gets one to follow may
    connect again to ask for it at once. And the system lists what changes meanwhile twice or not at all.
    """
    wait_until(lambda: fetching_connections(cluster) == expected, f"connections as in {expected}")


def fetching_connections(cluster: Cluster) -> Counter[tuple[int, int]]:
    """Established connections to the brokers' own listeners, by (from, to), as the system counts them."""
    places = {node_id: cluster.node(node_id).place for node_id in NODES}
    by_host = {place.host: node_id for node_id, place in places.items()}
    targets = {(place.host, place.port + BROKERS_PROXY): node_id for node_id, place in places.items()}
    found: Counter[tuple[int, int]] = Counter()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        source, target = by_host.get(_address(local)[0]), targets.get(_address(remote))
        if state == PROC_ESTABLISHED and source is not None and target is not None:
            found[source, target] += 1
    return found


def _address(text: str) -> tuple[str, int]:
    host, port = text.split(":")
    return socket.inet_ntoa(struct.pack("<I", int(host, 16))), int(port, 16)


@pytest.mark.covers("T1")
def test_every_replica_is_visible_with_its_end_and_its_lag(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster(brokers=3, settings={"replica.lag.time.max.ms": "1000", **LONG_SESSION})
    cluster.create_topic("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "1"})
    produced(cluster, "t", 7)
    cluster.wait_for(lambda: all(row["high_watermark"] == 7 for row in replicas(cluster)), "all know what is committed")
    assert [
        (row["broker"], row["role"], row["in_sync"], row["log_end"], row["lag"]) for row in replicas(cluster)
    ] == [(1, "leader", True, 7, 0), (2, "follower", True, 7, 0), (3, "follower", True, 7, 0)]  # fmt: skip
    cluster.partition({3}, {1, 2})
    produced(cluster, "t", 3)  # acknowledged when the one that is cut off has left
    assert [(row["broker"], row["in_sync"], row["log_end"], row["lag"]) for row in replicas(cluster)] == [
        (1, True, 10, 0), (2, True, 10, 0), (3, False, 7, 3)
    ]  # fmt: skip


def replicas(cluster: Cluster) -> list[dict[str, object]]:
    """What `hightide cluster replicas` says."""
    command = [sys.executable, "-m", "hightide", "cluster", "replicas", "t", "-o", "json", "-b", cluster.bootstrap]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows
