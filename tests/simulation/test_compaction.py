"""A broker with compacted topics, in memory: what it takes, what it compacts, what a reader sees meanwhile."""

import asyncio
import errno
from collections.abc import Coroutine, Sequence
from typing import Any

import pytest

from hightide.errors import ErrorCode
from hightide.sim.disk import SimulatedDisk
from hightide.wire.batches import build_batch
from hightide.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from hightide.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from hightide.wire.records import Record, iterate_headers
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, delete_topic, fetch, produce_batch, records_in, set_topic_config

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

    async def records(self, offset: int = 0) -> Sequence[Record]:
        """All of them, as a consumer fetches them: from where the last batch ended."""
        found: list[Record] = []
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
        compactions = it.broker.node.housekeeping.compactions
        while len(await it.records()) > 4 or not compactions.rounds:  # what a round shows comes before its end
            await asyncio.sleep(0.001)
        assert [record.value for record in await it.records()] == [b"v2", b"v2", b"v2", b"of the sealed ones"]
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


def test_only_topics_that_delete_take_delete_records() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=4)])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
        answer = (await it.broker.call(request, 2)).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.POLICY_VIOLATION
        await it.broker.call(set_topic_config("t", "cleanup.policy", "compact,delete"), 1)
        answer = (await it.broker.call(request, 2)).topics[0].partitions[0]
        assert (answer.error_code, answer.low_watermark) == (0, 4)
        await it.compact()
        assert [record.offset for record in await it.records(4)] == [6, 7, 8, 9]
        await it.broker.node.stop()

    run(story())


# ---------------------------------------------------------------------- what happens meanwhile


async def held(it: Story) -> "asyncio.Task[None]":
    """A round that has begun and waits for a sync."""
    it.broker.world.syncer.held = True
    task = asyncio.create_task(it.compact())
    while not any(path.endswith((".swap", ".cleaned")) for path in it.disk.image()):
        await asyncio.sleep(0.001)
    for _ in range(200):  # until it can do nothing more
        await asyncio.sleep(0)
    return task


def left_behind(disk: SimulatedDisk) -> list[str]:
    return [path for path in disk.image() if path.endswith((".swap", ".cleaned"))]


def test_a_topic_that_is_deleted_meanwhile() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        task = await held(it)
        deleted = asyncio.create_task(it.broker.call(delete_topic("t"), 5))
        await asyncio.sleep(0.05)
        it.broker.world.syncer.release()
        assert (await deleted).responses[0].error_code == 0
        await asyncio.wait_for(task, 10)
        assert not it.broker.node.failed.is_set()
        assert it.broker.node.housekeeping.compactions.rounds == 0
        await it.broker.node.stop()

    run(story())


@pytest.mark.parametrize("is_swapping", [False, True])
def test_a_stop_meanwhile_and_the_next_life(is_swapping: bool) -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        if is_swapping:  # what is noted before is on disk already
            await it.broker.node.checkpoints.write()
        await held(it)
        assert any(path.endswith(".swap") for path in it.disk.image()) == is_swapping
        it.broker.node.housekeeping.stop()
        it.broker.world.syncer.release()
        await it.broker.node.stop()
        it.disk.kill()
        again = Story(it.disk)
        await again.broker.start()
        assert left_behind(it.disk) == []
        assert len(await again.records()) in (4, 10)
        await again.compact()
        assert len(await again.records()) == 4
        await again.broker.node.stop()

    run(story())


def test_a_helper_that_dies_is_replaced() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        compactor = it.broker.node.compactor
        compactor._deaths = 1.0  # type: ignore[attr-defined]
        await it.compact()
        assert len(await it.records()) == 10
        compactor._deaths = 0.0  # type: ignore[attr-defined]
        await it.compact()
        assert len(await it.records()) == 4
        await it.broker.node.stop()

    run(story())


def test_a_full_disk_makes_compaction_wait() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        it.disk.fail("write", "*.cleaned", code=errno.ENOSPC)
        await it.compact()
        assert left_behind(it.disk) == []
        assert len(await it.records()) == 10
        await it.compact()
        assert len(await it.records()) == 4
        assert not it.broker.node.failed.is_set()
        await it.broker.node.stop()

    run(story())


def test_bad_bytes_set_the_partition_apart_before_they_are_copied() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        it.disk.flip("data/t-0/00000000000000000000.log", 70)
        await it.compact()
        assert it.broker.node.partition("t", 0).offline_reason is not None
        assert not it.broker.node.failed.is_set()
        await it.broker.node.stop()

    run(story())


def test_a_failed_sync_ends_the_disk() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        it.disk.fail("sync", "*.cleaned")
        await it.compact()
        assert it.broker.node.failed.is_set()

    run(story())


# ---------------------------------------------------------------------- from life to life, from policy to policy


def test_what_is_clean_stays_clean_after_a_restart() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        await it.compact()
        await it.broker.node.stop()
        again = Story(it.disk)
        await again.broker.start()
        await again.compact()
        assert again.broker.node.housekeeping.compactions.rounds == 0
        await again.broker.node.stop()

    run(story())


def test_the_policy_of_a_living_topic() -> None:
    async def story() -> None:
        it = await Story().begin(cleanup_policy="delete", retention_ms="-1")
        await it.churn()
        await it.compact()
        assert len(await it.records()) == 10
        await it.broker.call(set_topic_config("t", "cleanup.policy", "compact,delete"), 1)
        await it.compact()
        assert len(await it.records()) == 4
        await it.broker.call(set_topic_config("t", "cleanup.policy", "delete"), 1)
        assert (await it.put((None, b"no key"))).error_code == 0
        await it.broker.node.stop()
        again = Story(it.disk)
        await again.broker.start()
        assert len(await again.records()) == 5
        await again.broker.node.stop()

    run(story())


def test_offsets_by_time_in_a_compacted_topic() -> None:
    async def story() -> None:
        it = await Story().begin()
        await it.churn()
        await it.compact()
        for timestamp, offset in ((NOW, 6), (NOW + 31, 9), (NOW + 41, -1), (-1, 10), (-2, 0), (-3, 9)):
            asked = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[asked])])
            assert (await it.broker.call(request, 7)).topics[0].partitions[0].offset == offset
        await it.broker.node.stop()

    run(story())
