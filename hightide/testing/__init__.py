"""A cluster for tests: real brokers on real sockets and files, to be stopped, killed, paused and parted.

    with Cluster(brokers=3) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap})
        cluster.kill(cluster.leader_of("orders", 0))

The pytest plugin has the fixture `hightide_cluster`. Nothing is imported here before it is used: every pytest run on a
machine with hightide loads the plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hightide.testing.cluster import Cluster
    from hightide.testing.errors import ClusterError

__all__ = ["Cluster", "ClusterError"]

_PLACES = {"Cluster": "hightide.testing.cluster", "ClusterError": "hightide.testing.errors"}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
