"""Reading partitions from one offset to another, without a group.

One fetch is under way per leader; what arrives first is handed out first, in order within each partition (N10). A moved
leader is looked up again (C26), an offset that retention has removed is moved up to the log's start (C34), and an
offset beyond the end is an error, because records that were there are gone.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from typing import NamedTuple

from hightide.client.cluster import Cluster
from hightide.client.fetch import DEFAULT_LIMITS, FetchedPartition, FetchLimits, fetch, visible_batches
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.client.retries import sleep
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.records import iterate_records

FETCH_LANE = "fetch"


class Range(NamedTuple):
    """Which offsets to read; no end means: for ever."""

    start: int
    end: int | None = None


class ConsumedRecord(NamedTuple):
    """One record with its place."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]


class Consumer:
    """Reads the assigned ranges: iterate over `batches()`. `positions` holds the next offset of what is not done."""

    def __init__(
        self,
        cluster: Cluster,
        ranges: Mapping[TopicPartition, Range],
        *,
        limits: FetchLimits = DEFAULT_LIMITS,
        read_committed: bool = False,
    ) -> None:
        self.positions = {
            where: part.start for where, part in ranges.items() if part.end is None or part.start < part.end
        }
        self._ends = {where: part.end for where, part in ranges.items()}
        self._cluster = cluster
        self._limits = limits
        self._read_committed = read_committed
        self._fetches: dict[int, tuple[set[TopicPartition], asyncio.Task[list[FetchedPartition]]]] = {}
        self._failures = 0
        self._failing_since = 0.0

    async def batches(self) -> AsyncGenerator[list[ConsumedRecord], None]:
        """Lists of records as they arrive, until every range is read."""
        try:
            while self.positions:
                await self._cluster.retrying(self._start_fetches)
                tasks = [task for _, task in self._fetches.values()]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for records in await self._finished():
                    yield records
        finally:
            for _, task in self._fetches.values():
                task.cancel()
            self._fetches.clear()

    async def _start_fetches(self) -> None:
        """Every partition that waits for no answer is asked for, unless its leader is still busy with others."""
        under_way = set[TopicPartition]().union(*(partitions for partitions, _ in self._fetches.values()))
        by_leader: defaultdict[int, set[TopicPartition]] = defaultdict(set)
        for where in sorted(self.positions.keys() - under_way):  # the same order in every run
            topic = await self._cluster.topic(where.topic)
            by_leader[topic.leader(where.partition).leader].add(where)
        for leader, partitions in by_leader.items():
            if leader not in self._fetches:
                self._fetches[leader] = (partitions, asyncio.ensure_future(self._fetch(leader, partitions)))

    async def _fetch(self, leader: int, partitions: set[TopicPartition]) -> list[FetchedPartition]:
        connection = await self._cluster.broker(leader, FETCH_LANE)
        topics = [await self._cluster.topic(name) for name in sorted({where.topic for where in partitions})]
        offsets = {where: self.positions[where] for where in sorted(partitions)}
        limits, read_committed = self._limits, self._read_committed
        return await fetch(connection, topics, offsets, limits=limits, read_committed=read_committed)

    async def _finished(self) -> list[list[ConsumedRecord]]:
        """The records of the fetches that came back; their errors are mended, or raised when that takes too long."""
        arrived = []
        for leader, (_, task) in list(self._fetches.items()):
            if not task.done():
                continue
            del self._fetches[leader]
            try:
                for fetched in task.result():
                    if fetched.error:
                        await self._mend(fetched.partition, fetched.error)
                    elif records := list(self._take(fetched)):
                        arrived.append(records)
            except ApiError as error:
                await self._back_off(error)
            else:
                self._failures = 0
        return arrived

    def _take(self, fetched: FetchedPartition) -> Iterator[ConsumedRecord]:
        """The records that are asked for; the position moves over all batches, seen or not."""
        where = fetched.partition
        position, end = self.positions[where], self._ends[where]
        following = position
        for at, header, visible in visible_batches(fetched):
            following = header.next_offset
            if not visible:
                continue
            for record in iterate_records(fetched.records, at, header):
                if record.offset >= position and (end is None or record.offset < end):
                    yield ConsumedRecord(where.topic, where.partition, *record)
        self.positions[where] = following
        if end is not None and following >= end:
            del self.positions[where]

    async def _mend(self, where: TopicPartition, code: ErrorCode) -> None:
        if code is not ErrorCode.OFFSET_OUT_OF_RANGE:
            raise ApiError(code, f"partition {where}")
        position, end = self.positions[where], self._ends[where]
        earliest = (await list_offsets(self._cluster, {where: EARLIEST}))[where].offset
        if position >= earliest:
            latest = (await list_offsets(self._cluster, {where: LATEST}))[where].offset
            raise ApiError(code, f"partition {where} has offsets {earliest} to {latest}, not {position}")
        self.positions[where] = earliest
        if end is not None and earliest >= end:
            del self.positions[where]

    async def _back_off(self, error: ApiError) -> None:
        cluster, now = self._cluster, self._cluster.clock.now()
        cluster.heard(error)
        if not self._failures:
            self._failing_since = now
        self._failures += 1
        if not error.retriable or now - self._failing_since > cluster.retries.give_up_after:
            raise error
        await sleep(cluster.clock, cluster.retries.pause(self._failures))
