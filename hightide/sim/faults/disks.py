"""Disks that are full, slow, or fail an operation."""

import asyncio
import errno
from random import Random

from hightide.sim.faults.site import Site
from hightide.sim.wellness import unwell

SLOW_SYNC_SECONDS = (0.05, 2.0)


async def fill_disk(site: Site, random: Random, seconds: float) -> bool:
    disk = site.pick(random).disk
    disk.capacity = disk.used_bytes() + int(random.random() ** 2 * 100_000)
    await asyncio.sleep(seconds)
    disk.capacity = None
    return True


async def slow_sync(site: Site, random: Random, seconds: float) -> bool:
    speed = site.pick(random).speed
    low, high = SLOW_SYNC_SECONDS
    speed.sync_seconds = (low, low + (high - low) * random.random())
    await asyncio.sleep(seconds)
    speed.reset()
    return True


async def fail_sync(site: Site, random: Random, seconds: float) -> bool:
    return await _fail(site, random, seconds, "sync", errno.EIO)


async def fail_write(site: Site, random: Random, seconds: float) -> bool:
    return await _fail(site, random, seconds, "write", random.choice((errno.EIO, errno.ENOSPC)))


async def _fail(site: Site, random: Random, seconds: float, operation: str, code: int) -> bool:
    pattern = random.choice(("*", "*.log", "*checkpoint*", "*synced*"))
    disk = site.pick(random).disk
    fault = disk.fail(operation, pattern, code=code, skip=random.randrange(20), keep=random.randrange(100))
    await asyncio.sleep(seconds)
    struck = fault.times == 0
    fault.times = 0
    return struck


async def replace_disk(site: Site, random: Random, seconds: float) -> bool:
    """R8: another directory id takes the replicas out of the in-sync sets; they are copied from the others.

    Only while everything is in sync, since it takes a copy away for good, and not of a controller: a voter without
    memory needs a change of voters.
    """
    brokers = [node for node in site.nodes if "controller" not in node.settings.process_roles]
    if not brokers or any(unwell(site.nodes)):
        return False
    node = random.choice(brokers)
    node.replace_disk()
    await site.keep_down([node], seconds)
    return True
