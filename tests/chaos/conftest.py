"""Clusters of processes that several stories share."""

from collections.abc import Iterator

import pytest

from hightide.testing import Cluster
from hightide.testing.plugin import SHOWN_CLUSTERS


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Cluster]:
    """Three brokers for the stories of one module; each leaves them healthy, as `Story.judge` makes sure."""
    with Cluster(brokers=3, processes=True) as cluster:
        yield cluster


@pytest.fixture
def cluster(request: pytest.FixtureRequest, shared_cluster: Cluster) -> Cluster:
    """All of them run and agree, whatever became of the story before."""
    request.node.stash.setdefault(SHOWN_CLUSTERS, []).append(shared_cluster)
    shared_cluster.heal()
    shared_cluster.resume()
    shared_cluster.start()
    shared_cluster.wait_healthy()
    return shared_cluster
