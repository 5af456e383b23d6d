"""Disks that are full, slow, fail an operation, rot, or are replaced by empty ones."""

import asyncio
import errno
import re
from collections.abc import Callable
from random import Random

from hightide.sim.faults.site import Site
from hightide.sim.images import SECTOR_BYTES
from hightide.sim.wellness import scrub, unwell

Damage = Callable[[bytes, int], bytes]

SLOW_SYNC_SECONDS = (0.05, 2.0)
COPIES_MIN = 3
SCRUB_SECONDS = 20.0  # how long the start of a node with a bad disk is waited for
_LOG = re.compile(r"data/(?!__)[^/]+-\d+/\d+\.log$")  # of a topic's partition, not of the metadata


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


async def fail_read(site: Site, random: Random, seconds: float) -> bool:
    """The replica is fetched again from its leader. The only copy stays closed until its node starts again (R17)."""
    if len(site.nodes) < COPIES_MIN:
        return False
    return await _fail(site, random, seconds, "read", errno.EIO)


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


async def flip_bit(site: Site, random: Random, seconds: float) -> bool:
    """One bit of what was written turns."""

    def turned(data: bytes, position: int) -> bytes:
        return data[:position] + bytes([data[position] ^ 1 << random.randrange(8)]) + data[position + 1 :]

    return await _rot(site, random, seconds, "a bit of it turns", turned)


async def lose_block(site: Site, random: Random, seconds: float) -> bool:
    """A block is what it was before it was written, though the disk said that it was."""

    def stale(data: bytes, position: int) -> bytes:
        lost = min(SECTOR_BYTES, len(data) - position)
        return data[:position] + bytes(lost) + data[position + lost :]

    return await _rot(site, random, seconds, "a block of it is stale", stale)


async def misdirect_write(site: Site, random: Random, seconds: float) -> bool:
    """A block is in the place of another one."""

    def moved(data: bytes, position: int) -> bytes:
        block = data[: min(SECTOR_BYTES, len(data) - position)]
        return data[:position] + block + data[position + len(block) :]

    return await _rot(site, random, seconds, "a block of it is somewhere else", moved)


async def shorten_file(site: Site, random: Random, seconds: float) -> bool:
    """The end of a file is gone."""
    return await _rot(site, random, seconds, "its end is gone", lambda data, position: data[:position])


async def _rot(site: Site, random: Random, seconds: float, what: str, damage: Damage) -> bool:
    """R17: stored batches turn bad while the machine is off. Nobody ever gets them; the others serve what it was.

    Once in a run, while everything is in sync on three at least: two rotten copies are more than is promised. Not in
    the newest quarter, since rot within the last 10 ms before a power loss looks like a torn write.
    """
    if len(site.nodes) < COPIES_MIN or site.has_rotten or any(unwell(site.nodes)):
        return False
    node = site.pick(random)
    stored = {path: data for path, data in node.disk.image().items() if _LOG.match(path) and data}
    if not stored:
        return False
    path = random.choice(sorted(stored))
    damaged = damage(stored[path], int(random.random() * len(stored[path]) * 0.75))
    if damaged == stored[path]:
        return False
    node.kill()
    node.disk.overwrite(path, damaged)
    site.has_rotten = True
    site.world.trace.say(node.name, f"{path}: {what}")
    await site.keep_down([node], seconds)
    if await site.world.until(lambda: node.is_up, SCRUB_SECONDS):
        scrub(node)  # what is below its recovery point is verified when somebody asks for it
    return True
