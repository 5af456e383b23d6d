"""Clusters that change while they work: brokers join, and somebody moves leaders by hand."""

from random import Random

from hightide.errors import ApiError, ProtocolError
from hightide.sim.faults.site import Site
from hightide.sim.topology import bootstrap
from hightide.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

JOINED_MAX = 2


async def join(site: Site, _: Random, seconds: float) -> bool:
    """A new broker takes part from now on. A broker that is its own controller has no place for another one."""
    if site.founders == 1 or len(site.nodes) >= site.founders + JOINED_MAX:
        return False
    node = site.join()
    return await site.world.until(lambda: node.is_up, seconds)


async def elect_leaders(site: Site, random: Random, seconds: float) -> bool:
    """An operator asks for the preferred leaders everywhere, from whatever broker comes first."""
    client = site.world.add_client(f"operator-{len(site.world.clients)}")
    addresses = bootstrap(site.founders)
    random.shuffle(addresses)

    async def ask() -> bool:
        cluster = client.cluster(addresses, request_timeout=seconds)
        request = ElectLeadersRequest(topic_partitions=None, timeout_ms=int(seconds * 1000))
        try:
            await (await cluster.controller()).call(request, ElectLeadersResponse)
        except (ApiError, ProtocolError):
            return False
        finally:
            cluster.close()
        return True

    return await client.do(ask())
