"""The whole node in a world of memory: the ports are all it needs."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hightide.errors import ErrorCode
from hightide.sim.disk import SimulatedDisk
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, fetch, produce, values_of


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def test_what_is_produced_is_fetched() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        created = await broker.call(create_topic("t"), 7)
        assert created.topics[0].error_code == 0
        answer = await broker.call(produce("t", [b"a", b"b"]), 9)
        assert answer.responses[0].partition_responses[0].base_offset == 0
        answer = await broker.call(produce("t", [b"c"]), 9)
        assert answer.responses[0].partition_responses[0].base_offset == 2
        assert values_of(await broker.call(fetch("t"), 12)) == [b"a", b"b", b"c"]
        await broker.node.stop()

    run(scenario())


def test_consumers_see_nothing_that_is_not_synced() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t"), 7)
        broker.world.syncer.held = True
        await broker.call(produce("t", [b"a"], acks=1), 9)
        assert values_of(await broker.call(fetch("t"), 12)) == []
        broker.send(fetch("t", max_wait_ms=30_000), 12)
        broker.world.syncer.release()
        assert values_of(await broker.receive(1, 12)) == [b"a"]
        await broker.node.stop()

    run(scenario())


def test_a_long_poll_ends_when_its_time_is_up() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t"), 7)
        assert values_of(await broker.call(fetch("t", max_wait_ms=20), 12)) == []
        assert not broker.node.parked_fetches
        await broker.node.stop()

    run(scenario())


def test_an_acknowledgement_that_takes_too_long_is_a_time_out() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t"), 7)
        broker.world.syncer.held = True
        answer = await broker.call(produce("t", [b"a"], timeout_ms=10), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT
        broker.world.syncer.release()
        assert values_of(await broker.call(fetch("t", max_wait_ms=30_000), 12)) == [b"a"]
        await broker.node.stop()

    run(scenario())


def test_a_restart_raises_every_leader_epoch() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", partitions=3), 7)
        before = [broker.node.partition("t", index).replica.leader_epoch for index in range(3)]
        await broker.node.stop()
        disk.kill()
        again = await MemoryBroker(disk, seed=1).start()
        after = [again.node.partition("t", index).replica.leader_epoch for index in range(3)]
        assert all(new > old for new, old in zip(after, before, strict=True))
        await again.node.stop()

    run(scenario())


def test_what_all_brokers_must_agree_on_is_no_longer_taken_from_a_file(caplog: pytest.LogCaptureFixture) -> None:
    """R23: and the file's owner is told so."""

    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk, hightide_durability="replicated").start()
        await broker.node.stop()
        assert "ignored" not in caplog.text
        disk.kill()
        again = await MemoryBroker(disk, seed=1, hightide_durability="fsync", min_insync_replicas="1").start()
        assert "hightide.durability=fsync is ignored" in caplog.text
        assert "min.insync.replicas=1 is ignored" in caplog.text
        assert again.node.topic_settings("any").durability == "replicated"
        await again.node.stop()

    run(scenario())


@pytest.mark.covers("C2")
def test_partitions_and_their_count_survive_a_restart() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await MemoryBroker(disk).start()
        await broker.call(create_topic("t", partitions=3), 7)
        await broker.node.stop()
        disk.kill()
        again = await MemoryBroker(disk, seed=1).start()
        topic = again.node.image.topic_named("t")
        assert topic is not None
        assert len(topic.partitions) == 3
        await again.node.stop()

    run(scenario())
