"""Processes that are killed, paused, restarted, and crash where it hurts."""

import asyncio
from functools import partial
from random import Random

from hightide.sim.faults.site import Site
from hightide.sim.process import Condition, SimulatedProcess

CRASH_OPERATIONS_MAX = 60  # a crash comes within so many operations of the disk
RECOVERIES_MAX = 3
PATIENCE_SECONDS = 20.0  # for a clean stop or a start


async def kill(site: Site, random: Random, seconds: float) -> bool:
    node = site.pick(random)
    lived = node.condition is not Condition.DOWN
    node.kill()
    await site.keep_down([node], seconds)
    return lived


async def lose_power(site: Site, random: Random, seconds: float) -> bool:
    node = site.pick(random)
    lived = node.condition is not Condition.DOWN
    node.lose_power()
    await site.keep_down([node], seconds)
    return lived


async def kill_everywhere(site: Site, _: Random, seconds: float) -> bool:
    for node in site.nodes:
        node.kill()
    await site.keep_down(site.nodes, seconds)
    return True


async def lose_power_everywhere(site: Site, _: Random, seconds: float) -> bool:
    for node in site.nodes:
        node.lose_power()
    await site.keep_down(site.nodes, seconds)
    return True


async def pause(site: Site, random: Random, seconds: float) -> bool:
    node = site.pick(random)
    paused = node.condition is Condition.UP
    node.pause()
    await asyncio.sleep(seconds)
    node.resume()
    return paused


async def pause_and_kill(site: Site, random: Random, seconds: float) -> bool:
    node = site.pick(random)
    paused = node.condition is Condition.UP
    node.pause()
    await asyncio.sleep(seconds)
    node.kill()
    return paused


async def restart(site: Site, random: Random, _: float) -> bool:
    node = site.pick(random)
    was_up = node.is_up
    node.stop()
    await site.world.until(partial(_is_down, node), PATIENCE_SECONDS)
    node.start()
    return was_up


async def rolling_restart(site: Site, _: Random, seconds: float) -> bool:
    for node in site.nodes:
        node.stop()
        await site.world.until(partial(_is_down, node), PATIENCE_SECONDS)
        node.start()
        await site.world.until(partial(_is_up, node), PATIENCE_SECONDS)
        await asyncio.sleep(seconds / 10)
    return True


def _is_down(node: SimulatedProcess) -> bool:
    return node.condition is Condition.DOWN


def _is_up(node: SimulatedProcess) -> bool:
    return node.is_up


async def crash(site: Site, random: Random, seconds: float) -> bool:
    node = site.pick(random)
    life = node.lives
    node.disk.crash_at(random.randrange(1, CRASH_OPERATIONS_MAX), random.choice((0.0, 0.3, 1.0)))
    crashed = await site.world.until(lambda: node.condition is Condition.DOWN or node.lives > life, seconds)
    node.disk.crash_at(0)
    if crashed and random.random() < 0.5:
        node.lose_power()
    return crashed


async def crash_in_recovery(site: Site, random: Random, seconds: float) -> bool:
    node = site.pick(random)
    crashes = 0
    for _ in range(random.randrange(1, RECOVERIES_MAX + 1)):
        if random.random() < 0.5:
            node.lose_power()
        else:
            node.kill()
        node.disk.crash_at(random.randrange(1, CRASH_OPERATIONS_MAX), random.choice((0.0, 0.3, 1.0)))
        node.start()
        crashes += await site.world.until(lambda: node.condition is not Condition.STARTING, seconds)
        node.disk.crash_at(0)
    return crashes > 0
