"""A process may open only so many files: neither clients nor partitions take those that everything else needs."""

import os
import resource
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from hightide.testing import Cluster, ClusterError
from hightide.testing.nodes import ClusterNode
from tests.chaos.cluster_story import Story
from tests.chaos.processes import BrokerProcess
from tests.chaos.raw_client import RawClient
from tests.requests import create_topic, produce

DESCRIPTORS_MAX = 256
CONNECTIONS = 400
MORE_DESCRIPTORS = 150
PARTITIONS = 120


def test_a_flood_of_connections_keeps_nobody_from_writing(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, descriptors_max=DESCRIPTORS_MAX) as broker:
        with RawClient(broker.port) as client, ExitStack() as flood:
            for _ in range(CONNECTIONS):
                flood.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=10))
            for number in range(3):  # opens directories, checkpoints and new segments
                assert client.call(create_topic(f"t-{number}", 3), 7).topics[0].error_code == 0
                answer = client.call(produce(f"t-{number}", [b"value"]), 9).responses[0].partition_responses[0]
                assert answer.error_code == 0
        with RawClient(broker.port) as client:
            assert client.topic_names() == {"t-0", "t-1", "t-2"}
        assert broker.terminate() == 0, broker.log_tail()
        assert broker.unexpected() == []


@pytest.mark.xdist_group("processes")
@pytest.mark.covers("C8", "C10", "C38")
def test_more_partitions_than_descriptors_wait_for_more_and_cost_the_others_nothing(cluster: Cluster) -> None:
    with Story(cluster, topic="has-its-descriptors") as story:
        story.go_on()
        before = [_allow(node, _open_descriptors(node) + MORE_DESCRIPTORS) for node in cluster.nodes]
        with pytest.raises(ClusterError):
            cluster.create_topic("wants-too-many", PARTITIONS, timeout=5)
        for node in cluster.nodes:
            assert "no more logs can be opened" in cluster.logs(node.id)
        story.go_on()
        for node, allowed in zip(cluster.nodes, before, strict=True):
            _allow(node, allowed)
        cluster.wait_healthy()
        assert cluster.in_sync("wants-too-many", PARTITIONS - 1) == {1, 2, 3}
    story.judge()


def _open_descriptors(node: ClusterNode) -> int:
    return len(os.listdir(f"/proc/{node.pid}/fd"))


def _allow(node: ClusterNode, count: int) -> int:
    """How many a running process may open from now on; how many it might before."""
    assert node.pid is not None
    soft, hard = resource.prlimit(node.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(node.pid, resource.RLIMIT_NOFILE, (count, hard))
    return soft
