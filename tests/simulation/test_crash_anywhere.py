"""A whole node dies at every operation it does on its disk, by kill or by power loss, sometimes again at its start.

Whatever a client was told before is so after: records, topics, settings, deletions; producer ids are never given twice,
leader epochs rise. The scripted life passes every kind of write: start, metadata, records, checkpoints, a clean stop.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hightide.metadata.entities import ResourceType
from hightide.sim.disk import SimulatedDisk
from hightide.wire.messages.init_producer_id import InitProducerIdRequest
from tests.memory_world import MemoryBroker
from tests.requests import (
    batch,
    create_topic,
    delete_topic,
    fetch,
    produce,
    produce_batch,
    set_topic_config,
    values_of,
)

STRIDE = 7  # of all operations, every seventh in the default run: each seed begins at another one
GONE = object()


class Promises:
    """What clients were told, and what they asked for without being told. Values are unique."""

    def __init__(self) -> None:
        self.records: dict[str, list[bytes]] = {}
        self.asked: set[bytes] = set()
        self.topics: dict[str, object] = {}  # name -> retention.ms, or GONE
        self.unsure: set[str] = set()  # topics that somebody was just making, changing or deleting
        self.producer_ids: list[int] = []
        self.epochs: dict[str, int] = {}


class Life:
    """One life of the process, from its start to its crash or clean stop."""

    def __init__(self, disk: SimulatedDisk, promises: Promises, seed: int) -> None:
        self.disk = disk
        self.promises = promises
        self.seed = seed

    async def run(self, script: Callable[["Life"], Awaitable[None]]) -> bool:
        """Whether it came to its end without a crash."""
        died = asyncio.Event()
        self.disk.on_crash = died.set  # the node's tasks and callbacks may swallow the exception
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # a dead process reports nothing
        self.broker = MemoryBroker(self.disk, seed=self.seed)
        acting = asyncio.ensure_future(script(self))
        dying = asyncio.ensure_future(died.wait())
        await asyncio.wait({acting, dying}, return_when=asyncio.FIRST_COMPLETED)
        if dying.done():
            acting.cancel()
            await asyncio.wait({acting})
            if hasattr(self.broker.node, "housekeeping"):
                self.broker.die()
            return False
        dying.cancel()
        acting.result()
        return True

    # ------------------------------------------------------------------ what clients do

    async def create(self, name: str, retention_ms: int) -> None:
        self.promises.unsure.add(name)
        answer = await self.broker.call(create_topic(name, retention_ms=str(retention_ms)), 7)
        assert answer.topics[0].error_code == 0
        self.promises.topics[name] = retention_ms
        self.promises.records[name] = []
        self.promises.unsure.discard(name)

    async def configure(self, name: str, retention_ms: int) -> None:
        self.promises.unsure.add(name)
        answer = await self.broker.call(set_topic_config(name, "retention.ms", str(retention_ms)), 1)
        assert answer.responses[0].error_code == 0
        self.promises.topics[name] = retention_ms
        self.promises.unsure.discard(name)

    async def delete(self, name: str) -> None:
        self.promises.unsure.add(name)
        answer = await self.broker.call(delete_topic(name), 5)
        assert answer.responses[0].error_code == 0
        self.promises.topics[name] = GONE
        del self.promises.records[name]
        self.promises.unsure.discard(name)

    async def produce(self, name: str, value: bytes, **producer: int) -> None:
        self.promises.asked.add(value)
        request = produce_batch(name, batch([value], **producer)) if producer else produce(name, [value])
        answer = (await self.broker.call(request, 9)).responses[0].partition_responses[0]
        assert answer.error_code == 0
        self.promises.records[name].append(value)

    async def new_producer(self) -> int:
        answer = await self.broker.call(InitProducerIdRequest(transactional_id=None), 4)
        assert answer.error_code == 0
        self.promises.producer_ids.append(answer.producer_id)
        return int(answer.producer_id)

    # ------------------------------------------------------------------ what must be so

    async def verify(self) -> None:
        promises, image = self.promises, self.broker.node.image
        for name, told in promises.topics.items():
            if name in promises.unsure:
                continue
            topic = image.topic_named(name)
            assert (topic is None) == (told is GONE), f"{name} should be {told}"
            if topic is not None:
                assert image.settings_of(ResourceType.TOPIC, name)["retention.ms"] == str(told)
        for name, acknowledged in promises.records.items():
            if image.topic_named(name) is not None:
                await self._verify_records(name, acknowledged)
            else:
                assert name in promises.unsure

    async def _verify_records(self, name: str, acknowledged: list[bytes]) -> None:
        found = values_of(await self.broker.call(fetch(name), 12))
        assert [value for value in found if value in acknowledged] == acknowledged, "K4: lost or out of order"
        assert len(set(found)) == len(found), "K2: twice"
        assert set(found) <= self.promises.asked, "K12: never sent"
        epoch = self.broker.node.partition(name, 0).replica.leader_epoch
        assert epoch > self.promises.epochs.get(name, -1), "I11: a leader epoch came again"
        self.promises.epochs[name] = epoch


async def story(life: Life) -> None:
    """The life that is interrupted everywhere."""
    await life.broker.start()
    await life.create("a", 1_000_000)
    await life.produce("a", b"a0")
    await life.create("b", 2_000_000)
    producer = await life.new_producer()
    for sequence in range(3):
        await life.produce("b", b"b%d" % sequence, producer_id=producer, producer_epoch=0, base_sequence=sequence)
    await life.configure("a", 1_000_001)
    await life.broker.node.checkpoints.write()
    await life.produce("a", b"a1")
    await life.delete("b")
    await life.create("b", 2_000_002)
    await life.produce("b", b"b again")
    await life.broker.node.stop()


async def aftermath(life: Life) -> None:
    """The next life: everything is as promised, and goes on."""
    await life.broker.start()
    await life.verify()
    await life.new_producer()
    assert len(set(life.promises.producer_ids)) == len(life.promises.producer_ids)
    name = f"later-{life.seed}"
    await life.create(name, 3_000_000)
    await life.produce(name, b"in life %d" % life.seed)
    assert life.broker.node.stats.unexpected_errors == 0
    await life.broker.node.stop()


def operations_of_a_life() -> int:
    disk = SimulatedDisk()
    assert asyncio.run(Life(disk, Promises(), 0).run(story))
    return disk.operations


def die_at(operation: int, seed: int) -> None:
    """The story up to this operation, then lives that may die too, until one verified everything and ended well."""
    rng = random.Random(f"{seed}:{operation}")
    disk, promises = SimulatedDisk(), Promises()
    disk.crash_at(operation, rng.choice((0.0, 0.5)))
    asyncio.run(Life(disk, promises, 0).run(story))  # timers make it a few operations shorter at times
    disk.crash_at(0)
    for number in range(1, 5):
        if rng.random() < 0.5:
            disk.kill()
        else:
            disk.power_loss(rng)
        if number < 3 and rng.random() < 0.4:
            disk.crash_at(rng.randrange(1, 60))
        if asyncio.run(Life(disk, promises, number).run(aftermath)):
            break
    disk.crash_at(0)
    disk.kill()
    assert asyncio.run(Life(disk, promises, 9).run(aftermath))


def at_every(stride: int, seed: int) -> list[Any]:
    count = operations_of_a_life()
    assert count > 100
    return list(range(1 + seed % stride, count + 1, stride))


@pytest.mark.parametrize("seed", range(2))
def test_nothing_promised_is_lost_wherever_the_process_dies(seed: int) -> None:
    for operation in at_every(STRIDE, seed):
        try:
            die_at(operation, seed)
        except BaseException as error:
            error.add_note(f"die_at({operation}, {seed})")
            raise


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 6))
def test_the_same_at_every_single_operation(seed: int) -> None:
    for operation in at_every(1, seed):
        try:
            die_at(operation, seed)
        except BaseException as error:
            error.add_note(f"die_at({operation}, {seed})")
            raise
