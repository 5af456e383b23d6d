"""The rules that a whole node keeps, not its disk: a story that holds with each, and breaks a history without it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hightide.errors import ErrorCode
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.sim.images import LOST
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, fetch, produce, values_of

Story = Callable[[Rules], Awaitable[list[str]]]
TURNS = 100  # of the loop: enough for everything that does not wait for a sync


async def broker_with_topic(disk: SimulatedDisk, rules: Rules) -> MemoryBroker:
    broker = await MemoryBroker(disk, rules=rules).start()
    await broker.call(create_topic("t"), 7)
    return broker


async def a_producer_reconnects_and_power_fails(rules: Rules) -> list[str]:
    """The same batch comes again on another connection while the first is still on its way to the disk."""
    disk = SimulatedDisk()
    broker = await broker_with_topic(disk, rules)
    broker.world.syncer.held = True
    batch = produce("t", [b"a"], producer_id=7, producer_epoch=0, base_sequence=0)
    broker.send(batch, 9)
    broker.connection = broker.world.network.client()
    broker.send(batch, 9)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    is_acknowledged = not broker.connection.replies.empty()
    broker.die()
    disk.power_loss(0, (LOST,))
    again = await MemoryBroker(disk, seed=1).start()
    found = values_of(await again.call(fetch("t"), 12))
    await again.node.stop()
    return ["K4: acknowledged, and gone after the power loss"] if is_acknowledged and b"a" not in found else []


class Reader:
    """A consumer that starts over when the broker says that its position is not in the log, as stock ones do."""

    def __init__(self, broker: MemoryBroker, position: int) -> None:
        self._broker = broker
        self.position = position

    async def poll(self, **options: Any) -> list[tuple[int, bytes | None]]:
        answer = await self._broker.call(fetch("t", self.position, **options), 12)
        if answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.position = 0
            return []
        values = values_of(answer)
        first, self.position = self.position, self.position + len(values)
        return list(enumerate(values, first))


async def a_reader_waits_behind_its_own_write(rules: Rules) -> list[str]:
    """Its position is in the log, but above the high watermark until the disk has caught up."""
    broker = await broker_with_topic(SimulatedDisk(), rules)
    broker.world.syncer.held = True
    answer = await broker.call(produce("t", [b"own"], acks=1), 9)
    start = answer.responses[0].partition_responses[0].base_offset + 1
    reader = Reader(broker, start)
    read = await reader.poll()
    broker.world.syncer.release()
    await broker.call(produce("t", [b"next"]), 9)
    while (start, b"next") not in read:
        read += await reader.poll(max_wait_ms=10_000)
    await broker.node.stop()
    return [f"K8: went back to offset {offset}" for offset, _ in read if offset < start]


STORIES: list[tuple[str, Story, str]] = [
    ("r11_duplicates_park", a_producer_reconnects_and_power_fails, "K4"),
    ("r13_empty_above_high_watermark", a_reader_waits_behind_its_own_write, "K8"),
]


@pytest.mark.parametrize(("rule", "story", "checker"), STORIES)
def test_the_story_holds_with_the_rule(rule: str, story: Story, checker: str) -> None:
    assert asyncio.run(_told(story, ALL_ON)) == []


@pytest.mark.parametrize(("rule", "story", "checker"), STORIES)
def test_the_story_breaks_without_the_rule(rule: str, story: Story, checker: str) -> None:
    found = asyncio.run(_told(story, ALL_ON.without(rule)))
    assert any(entry.startswith(checker) for entry in found), f"{rule} off, and nobody noticed: {found}"


async def _told(story: Story, rules: Rules) -> list[str]:
    return await story(rules)
