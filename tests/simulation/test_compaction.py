"""A broker with compacted topics, in memory: what it takes, what it compacts, what a reader sees meanwhile."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from hightide.errors import ErrorCode
from hightide.sim.disk import SimulatedDisk
from hightide.wire.batches import build_batch
from hightide.wire.records import Record, iterate_headers
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, fetch, produce_batch, records_in

NOW = 1_700_000_000_000
COMPACTED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_ms": "1",
    "min_cleanable_dirty_ratio": "0",
    "delete_retention_ms": "0",
}


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


class Story:
    """A broker, and a topic that is written to; every batch begins a segment."""

    def __init__(self, disk: SimulatedDisk | None = None, **settings: Any) -> None:
        self.disk = disk or SimulatedDisk()
        self.broker = MemoryBroker(self.disk, **settings)
        self.written = 0

    async def begin(self, **configs: Any) -> "Story":
        await self.broker.start()
        await self.broker.call(create_topic("t", **COMPACTED | configs), 5)
        return self

    async def put(self, *pairs: tuple[bytes | None, bytes | None]) -> Any:
        self.written += 1
        records = [Record(timestamp=NOW + 10 * self.written, key=key, value=value) for key, value in pairs]
        answer = await self.broker.call(produce_batch("t", bytes(build_batch(records))), 9)
        return answer.responses[0].partition_responses[0]

    async def churn(self, rounds: int = 3) -> None:
        for number in range(rounds):
            await self.put(*[(b"k%d" % key, b"v%d" % number) for key in range(3)])
        await self.put((b"end", b"of the sealed ones"))

    async def compact(self) -> None:
        await self.broker.node.housekeeping.compactions.compact_all()

    async def records(self) -> Sequence[Record]:
        """All of them, as a consumer fetches them: from where the last batch ended."""
        found: list[Record] = []
        offset = 0
        while True:
            part = (await self.broker.call(fetch("t", offset), 12)).responses[0].partitions[0]
            assert part.error_code == 0
            if not part.records:
                return found
            found += records_in(part.records)
            offset = max(header.next_offset for _, header in iterate_headers(part.records))

    @property
    def log(self) -> Any:
        return self.broker.node.partition("t", 0).log


def test_a_reader_sees_the_last_value_of_each_key() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        assert len(await it.records()) == 10
        await it.compact()
        assert [(record.offset, record.key, record.value) for record in await it.records()] == [
            (6, b"k0", b"v2"), (7, b"k1", b"v2"), (8, b"k2", b"v2"), (9, b"end", b"of the sealed ones"),
        ]  # fmt: skip
        assert it.broker.node.housekeeping.compactions.rounds == 1
        assert it.log.start == 0
        await it.broker.node.stop()

    run(story())


def test_compaction_comes_by_itself() -> None:
    async def story() -> None:
        it = await Story(log_cleaner_backoff_ms="1").begin()
        await it.churn()
        while len(await it.records()) > 4:
            await asyncio.sleep(0.01)
        assert it.broker.node.housekeeping.compactions.rounds > 0
        await it.broker.node.stop()

    run(story())


def test_records_without_a_key_are_refused_by_name() -> None:
    async def story() -> None:
        it = await Story().begin()
        answer = await it.put((b"k", b"v"), (None, b"lost?"), (b"k", None), (None, None))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [error.batch_index for error in answer.record_errors] == [1, 3]
        assert "compacted topic" in answer.record_errors[0].batch_index_error_message
        assert await it.records() == []
        await it.broker.node.stop()

    run(story())
