"""A simulated client does one thing with a simulated cluster and leaves."""

from collections.abc import Awaitable, Callable

from hightide.client.cluster import Cluster
from hightide.sim.topology import bootstrap
from hightide.sim.world import SimulatedClient


async def visit(client: SimulatedClient, brokers: int, work: Callable[[Cluster], Awaitable[object]]) -> None:
    """Do some work with a connection of its own."""

    async def doing() -> None:
        cluster = client.cluster(bootstrap(brokers))
        try:
            await work(cluster)
        finally:
            cluster.close()

    await client.do(doing())
