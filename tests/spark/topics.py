"""Filling topics and reading them back without Spark: the other side of every test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from hightide.client.admin import Admin
from hightide.client.cluster import Cluster as Client
from hightide.client.consumer import ConsumedRecord, Consumer, Range
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.client.producer import Producer
from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.testing import Cluster
from hightide.types import TopicPartition
from hightide.wire.compression import Codec
from hightide.wire.records import Record


class Topics:
    """Our own client on the cluster of the tests."""

    def __init__(self, cluster: Cluster) -> None:
        self.bootstrap = cluster.bootstrap
        self._client = BlockingCluster(ClientSettings(cluster.bootstrap, "tests"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._client.close()

    def send(self, topic: str, records: Sequence[Record], *, partition: int = 0, codec: Codec = Codec.NONE) -> int:
        """Append records to a partition and return the offset after them."""

        async def work(client: Client) -> int:
            await client.retrying(lambda: self._partition(client, topic, partition))
            producer = Producer(client, codec=codec)
            futures = [
                await producer.send(
                    topic, record.value, key=record.key, headers=record.headers, partition=partition,
                    timestamp=None if record.timestamp < 0 else record.timestamp,
                )
                for record in records
            ]  # fmt: skip
            await producer.close()
            return max(future.result().offset for future in futures) + 1

        return self._client.run(work)

    async def _partition(self, client: Client, topic: str, partition: int) -> None:
        """Whom we ask may not know yet what was just created."""
        (await client.topic(topic)).partition(partition)

    def fill(self, topic: str, count: int, *, partition: int = 0, codec: Codec = Codec.NONE, first: int = 0) -> int:
        """Append `count` numbered records to a partition and return the offset after them."""
        records = [Record(key=b"k%d" % index, value=b"v%d" % index) for index in range(first, first + count)]
        return self.send(topic, records, partition=partition, codec=codec)

    def records(self, topic: str) -> list[ConsumedRecord]:
        """Everything that a topic holds, by partition and offset."""

        async def work(client: Client) -> list[ConsumedRecord]:
            client.expire()
            where = [TopicPartition(topic, number) for number in (await client.topic(topic)).partitions]
            start = await list_offsets(client, dict.fromkeys(where, EARLIEST))
            end = await list_offsets(client, dict.fromkeys(where, LATEST))
            ranges = {each: Range(start[each].offset, end[each].offset) for each in where}
            return [record async for batch in Consumer(client, ranges).batches() for record in batch]

        return sorted(self._client.run(work), key=lambda record: (record.partition, record.offset))

    def add_partitions(self, topic: str, total: int) -> None:
        """Grow a topic to so many partitions."""
        self._administer(lambda admin: admin.create_partitions({topic: total}))

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._administer(lambda admin: admin.delete_topics([topic]))

    def delete_records(self, topic: str, before: int, *, partition: int = 0) -> None:
        """Let a partition begin at this offset."""
        self._administer(lambda admin: admin.delete_records({TopicPartition(topic, partition): before}))

    def _administer(self, work: Callable[[Admin], Awaitable[Mapping[Any, Any]]]) -> None:
        outcomes = self._client.run(lambda client: work(Admin(client)))
        for outcome in outcomes.values():
            assert not isinstance(outcome, Exception), outcome
