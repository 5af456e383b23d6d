"""Power is lost right after each acknowledgement: nothing acknowledged is gone (RELIABILITY, durability promises)."""

import asyncio
import random

import pytest

from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, fetch, produce, values_of

ACKNOWLEDGEMENTS = 12


async def lost_after(count: int, seed: int, rules: Rules) -> list[bytes]:
    """The acknowledged values that a reader misses when power goes right after the `count`-th acknowledgement."""
    disk = SimulatedDisk()
    broker = await MemoryBroker(disk, seed=seed, rules=rules).start()
    await broker.call(create_topic("t", segment_bytes="1048576"), 7)
    acknowledged = []
    for number in range(count):
        value = b"value-%d-" % number + bytes(300)
        answer = await broker.call(produce("t", [value]), 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
        acknowledged.append(value)
    broker.die()
    disk.power_loss(random.Random(f"{seed}:power"))
    again = await MemoryBroker(disk, seed=seed + 1000).start()
    found = values_of(await again.call(fetch("t"), 12))
    assert len(found) == len(set(found)), "a value appears twice"
    await again.node.stop()
    return [value for value in acknowledged if value not in found]


@pytest.mark.parametrize("count", range(1, ACKNOWLEDGEMENTS + 1))
def test_nothing_acknowledged_is_lost(count: int) -> None:
    for seed in range(4):
        assert asyncio.run(lost_after(count, seed, ALL_ON)) == []


def test_without_sync_before_the_answer_the_checker_finds_the_loss() -> None:
    rules = ALL_ON.without("r4_synced_ends_only")
    losses = [asyncio.run(lost_after(ACKNOWLEDGEMENTS, seed, rules)) for seed in range(8)]
    assert any(losses)
