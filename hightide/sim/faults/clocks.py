"""Clocks that jump, drift and stand still."""

import asyncio
from random import Random

from hightide.sim.faults.site import Site
from hightide.sim.process import SimulatedProcess

STEP_MS_MAX = 24 * 3_600_000  # a topic keeps its records for a week: what a jumping clock deletes sooner is lost
DRIFT_MAX = 0.01  # faster or slower than true time; leases allow for more


async def step_clock(site: Site, random: Random, _: float) -> bool:
    step = int(random.random() ** 4 * STEP_MS_MAX)
    site.pick(random).time.step(random.choice((-1, 1)) * step)
    return step > 0


async def drift_clock(site: Site, random: Random, seconds: float) -> bool:
    return await _at_rate(site.pick(random), 1.0 + random.uniform(-DRIFT_MAX, DRIFT_MAX), seconds)


async def freeze_clock(site: Site, random: Random, seconds: float) -> bool:
    return await _at_rate(site.pick(random), 0.0, seconds)


async def _at_rate(node: SimulatedProcess, rate: float, seconds: float) -> bool:
    node.time.drift(rate)
    await asyncio.sleep(seconds)
    node.time.drift(1.0)
    return True
