"""What is left of deleted topics goes away beside everything else, and never many at once."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

from hightide.node.ports import Syncer
from hightide.storage.files import Syncable
from hightide.storage.syncing import DirectoryRemoval
from tests.cluster.live_broker import Client, LiveBroker, until
from tests.requests import create_topic, delete_topic, produce

PARTITIONS = 3


class HeldRemovals:
    """A syncer that does everything but remove directories, until it is told to."""

    def __init__(self, inner: Syncer) -> None:
        self.waiting: list[tuple[Sequence[Syncable], Callable[[Exception | None], None]]] = []
        self._inner = inner

    def sync(self, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        if any(isinstance(file, DirectoryRemoval) for file in files):
            self.waiting.append((files, done))
        else:
            self._inner.sync(files, done)

    def go_on(self) -> None:
        """Do what waits."""
        waiting, self.waiting = self.waiting, []
        for files, done in waiting:
            assert len(files) == 1
            self._inner.sync(files, done)


def condemned(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "data").glob("*-delete"))


async def made_and_deleted(broker: LiveBroker, *topics: str) -> Client:
    """All are there before the first goes."""
    client = await broker.connect()
    for name in topics:
        assert (await client.call(create_topic(name, PARTITIONS), 4)).topics[0].error_code == 0
    for name in topics:
        assert (await client.call(delete_topic(name), 5)).responses[0].error_code == 0
    return client


def test_a_deleted_topic_keeps_nobody_waiting_while_its_files_go(tmp_path: Path) -> None:
    async def run() -> None:
        async with LiveBroker(tmp_path) as broker:
            held = HeldRemovals(broker.node.syncer)
            broker.node.syncer = held
            client = await made_and_deleted(broker, "a", "b")
            for left in range(2 * PARTITIONS, 0, -1):
                await until(lambda: held.waiting)
                assert len(held.waiting) == 1
                assert len(condemned(tmp_path)) == left
                answer = await client.call(produce("t", [b"v"]), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
                held.go_on()
            await until(lambda: not condemned(tmp_path))
            assert not held.waiting

    asyncio.run(run())


def test_what_a_stop_interrupts_the_next_start_finishes(tmp_path: Path) -> None:
    async def run() -> None:
        async with LiveBroker(tmp_path) as broker:
            held = HeldRemovals(broker.node.syncer)
            broker.node.syncer = held
            await made_and_deleted(broker, "a")
            await until(lambda: held.waiting)
            assert len(condemned(tmp_path)) == PARTITIONS
            await broker.stop()
        assert len(condemned(tmp_path)) == PARTITIONS
        async with LiveBroker(tmp_path) as broker:
            assert not condemned(tmp_path)
            assert broker.node.image.topic_named("a") is None

    asyncio.run(run())
