"""Networks that are cut, slow or lossy, and connections that break."""

import asyncio
from random import Random

from hightide.sim.faults.site import Site

DELAY_SECONDS_MAX = 5.0
LOSS_MAX = 0.3
# Fetch, Vote, BeginQuorumEpoch, EndQuorumEpoch, AlterPartition, FetchSnapshot, BrokerRegistration, BrokerHeartbeat.
HELD_KEYS = (1, 52, 53, 54, 56, 59, 62, 63)


async def cut(site: Site, random: Random, seconds: float) -> bool:
    return await _without(site, _both_ways(site, site.pick(random).name), seconds)


async def cut_client(site: Site, random: Random, seconds: float) -> bool:
    return await _without(site, _both_ways(site, random.choice(list(site.world.clients))), seconds)


async def cut_one_way(site: Site, random: Random, seconds: float) -> bool:
    host = site.pick(random).name
    others = random.choice((site.others(host), [node.name for node in site.nodes if node.name != host]))
    pairs = [(host, other) for other in others] if random.random() < 0.5 else [(other, host) for other in others]
    return await _without(site, pairs, seconds)


async def cut_from_nodes(site: Site, random: Random, seconds: float) -> bool:
    """Clients still reach it, and it has nobody to replicate to, or to be the controller of."""
    host = site.pick(random).name
    others = [node.name for node in site.nodes if node.name != host]
    return await _without(site, [pair for other in others for pair in ((host, other), (other, host))], seconds)


async def ring(site: Site, random: Random, seconds: float) -> bool:
    """Every node reaches the next one only, and is heard by nobody else."""
    names = [node.name for node in site.nodes]
    random.shuffle(names)
    heard = {(name, names[(place + 1) % len(names)]) for place, name in enumerate(names)}
    pairs = [(source, target) for source in names for target in names if source != target]
    return await _without(site, [pair for pair in pairs if pair not in heard], seconds)


async def split(site: Site, random: Random, seconds: float) -> bool:
    hosts = [*site.world.processes, *site.world.clients]
    left = [host for host in hosts if random.random() < 0.5]
    right = [host for host in hosts if host not in left]
    return await _without(
        site, [(a, b) for one, two in ((left, right), (right, left)) for a in one for b in two], seconds
    )


def _both_ways(site: Site, host: str) -> list[tuple[str, str]]:
    return [pair for other in site.others(host) for pair in ((host, other), (other, host))]


async def _without(site: Site, pairs: list[tuple[str, str]], seconds: float) -> bool:
    network = site.world.network
    for source, target in pairs:
        network.cut(source, target)
    await asyncio.sleep(seconds)
    for source, target in pairs:
        network.restore(source, target)
    return bool(pairs)


async def slow_network(site: Site, random: Random, seconds: float) -> bool:
    slow = random.random() ** 3 * DELAY_SECONDS_MAX
    return await _worse(site, random, seconds, (0.0, slow), 0.0)


async def lossy_network(site: Site, random: Random, seconds: float) -> bool:
    return await _worse(site, random, seconds, None, random.random() * LOSS_MAX)


async def _worse(site: Site, random: Random, seconds: float, delay: tuple[float, float] | None, loss: float) -> bool:
    network = site.world.network
    pairs = _both_ways(site, site.pick(random).name)
    for source, target in pairs:
        link = network.link(source, target)
        link.loss = loss
        link.delay_seconds = delay or link.delay_seconds
    await asyncio.sleep(seconds)
    for source, target in pairs:
        network.restore(source, target)
    return True


async def hold_messages(site: Site, random: Random, seconds: float) -> bool:
    """Requests of one kind between nodes come late, each by the same time."""
    network, names = site.world.network, [node.name for node in site.nodes]
    pairs = [(source, target) for source in names for target in names if source != target]
    key, held = random.choice(HELD_KEYS), random.random() ** 2 * DELAY_SECONDS_MAX
    for source, target in pairs:
        network.link(source, target).held_seconds[key] = held
    await asyncio.sleep(seconds)
    for source, target in pairs:
        network.link(source, target).held_seconds.pop(key, None)
    return bool(pairs)


async def reset(site: Site, random: Random, _: float) -> bool:
    host = site.pick(random).name
    return sum(site.world.network.reset_connections(host, other) for other in site.others(host)) > 0
