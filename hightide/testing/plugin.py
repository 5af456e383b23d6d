"""The pytest plugin: the fixture `hightide_cluster`, and the logs of its processes in the report of a failed test.

def test_orders(hightide_cluster):
    cluster = hightide_cluster(brokers=3)
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from hightide.testing.cluster import Cluster

LOG_LINES_SHOWN = 50
SHOWN_CLUSTERS = pytest.StashKey[list["Cluster"]]()
"""The clusters of a test, for fixtures that make their own: `request.node.stash.setdefault(SHOWN_CLUSTERS, [])`."""


@pytest.fixture
def hightide_cluster(request: pytest.FixtureRequest) -> "Iterator[Callable[..., Cluster]]":
    """Makes `hightide.testing.Cluster`s, ready for clients; they end with the test."""
    from hightide.testing import Cluster

    made = request.node.stash.setdefault(SHOWN_CLUSTERS, [])
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Cluster:
            cluster = stack.enter_context(Cluster(*args, **options))
            made.append(cluster)
            return cluster

        yield make
    made.clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Nodes in this process log where pytest sees it; those of processes are shown here."""
    report = yield
    if report.failed:
        for cluster in item.stash.get(SHOWN_CLUSTERS, []):
            for node in cluster.nodes if cluster.processes else ():
                lines = cluster.logs(node.id).splitlines()[-LOG_LINES_SHOWN:]
                report.sections.append((f"hightide node {node.id}, {node.log_file}", "\n".join(lines)))
    return report
