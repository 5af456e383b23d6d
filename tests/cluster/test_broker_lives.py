"""Brokers that are sent away, and brokers whose logs lost their end while they were away (R8)."""

import shutil
from collections.abc import Callable

import pytest

from hightide.testing import Cluster
from hightide.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.chaos.raw_client import RawClient
from tests.requests import produce

MakeCluster = Callable[..., Cluster]
VALUES = [b"v" * 1000] * 20


def client_of(cluster: Cluster, node_id: int) -> RawClient:
    host, _, port = cluster.node(node_id).address.rpartition(":")
    return RawClient(int(port), host=host)


def log_bytes(cluster: Cluster, node_id: int) -> bytes:
    return (cluster.node(node_id).data_directory / "t-0" / f"{0:020d}.log").read_bytes()


@pytest.mark.covers("C23")
def test_a_live_broker_that_is_unregistered_ends_and_registers_again_when_it_is_started(
    hightide_cluster: MakeCluster,
) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t", assignments={0: [3, 1, 2]})
    with client_of(cluster, 1) as client:
        assert client.call(UnregisterBrokerRequest(broker_id=3), 0).error_code == 0
    cluster.wait_for(lambda: not cluster.node(3).is_running, "the unregistered broker ends")
    assert "this broker was unregistered" in cluster.logs(3)
    assert cluster.leader_of("t") == 1
    cluster.start(3)
    cluster.wait_healthy()


@pytest.mark.covers("T20")
def test_a_log_that_lost_its_end_while_its_broker_was_down_is_fetched_again(hightide_cluster: MakeCluster) -> None:
    cluster = hightide_cluster()
    cluster.create_topic("t", assignments={0: [1, 2, 3]})
    with client_of(cluster, 1) as client:
        for _ in range(2):
            answer = client.call(produce("t", VALUES), 9).responses[0].partition_responses[0]
            assert answer.error_code == 0
    cluster.stop(3)
    whole = log_bytes(cluster, 3)
    segment = cluster.node(3).data_directory / "t-0" / f"{0:020d}.log"
    segment.write_bytes(whole[: len(whole) // 2])
    cluster.start(3)
    cluster.wait_healthy()
    assert "but was synced up to" in cluster.logs(3)
    cluster.wait_for(lambda: log_bytes(cluster, 3) == whole, "the log is whole again")
    assert log_bytes(cluster, 1) == whole


@pytest.mark.covers("T20")
def test_a_replica_that_was_being_fetched_again_when_its_broker_died_goes_on(hightide_cluster: MakeCluster) -> None:
    """What is kept of the bad log says that the one beside it may be incomplete, whatever the metadata believe."""
    cluster = hightide_cluster()
    cluster.create_topic("t", assignments={0: [3, 1, 2]})
    with client_of(cluster, 3) as client:
        assert client.call(produce("t", VALUES), 9).responses[0].partition_responses[0].error_code == 0
    cluster.kill(3)
    whole = log_bytes(cluster, 3)
    data = cluster.node(3).data_directory
    kept = data / "t-0.0123456789abcdef-quarantine"
    shutil.copytree(data / "t-0", kept)
    cluster.kill(1, 2)
    cluster.start()
    cluster.wait_healthy()
    assert cluster.leader_of("t") != 3, "it is not trusted before it was in sync again"
    cluster.wait_for(lambda: not kept.exists(), "what was kept is deleted")
    assert log_bytes(cluster, 3) == whole


@pytest.mark.covers("T20")
def test_a_bit_that_turned_where_nobody_reads_is_found_and_mended(hightide_cluster: MakeCluster) -> None:
    """A clean stop is trusted, the segment is sealed, and the broker only follows: a scrub finds it (I31)."""
    cluster = hightide_cluster()
    cluster.create_topic("t", assignments={0: [1, 2, 3]}, configs={"segment.bytes": "1048576"})
    with client_of(cluster, 1) as client:
        for _ in range(15):
            answer = client.call(produce("t", [b"v" * 100_000]), 9).responses[0].partition_responses[0]
            assert answer.error_code == 0
    cluster.stop(3)
    whole = log_bytes(cluster, 3)
    rotten = bytearray(whole)
    rotten[len(rotten) // 2] ^= 1
    (cluster.node(3).data_directory / "t-0" / f"{0:020d}.log").write_bytes(rotten)
    cluster.start(3)
    cluster.wait_for(lambda: "is fetched again from its leader" in cluster.logs(3), "the scrub finds it")
    cluster.wait_healthy()
    cluster.wait_for(lambda: log_bytes(cluster, 3) == whole, "the log is whole again")
