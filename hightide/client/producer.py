"""Sending records: choose the partition as the Java client does, batch, and never twice.

`send` waits only while too much is buffered; the future it returns tells where the record is kept. Idempotent unless
told otherwise: the broker numbers the producer, every batch is numbered by us, and a repeated one is kept once (N11).
"""

import asyncio
from collections.abc import Sequence

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.outbox import NO_IDENTITY, Delivered, Delivery, Identity, Outbox
from hightide.client.partitioner import StickyChoice, partition_for_key
from hightide.errors import ApiError
from hightide.limits import CLIENT_BUFFER_BYTES_MAX
from hightide.types import TopicPartition
from hightide.wire.compression import Codec
from hightide.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hightide.wire.records import Record

BATCH_BYTES = 256 * 1024  # large enough for throughput, well below Kafka's max.message.bytes of 1 MiB
RECORD_OVERHEAD_BYTES = 24  # a record's own numbers, at their usual size and a little more
DELIVERY_TIMEOUT_SECONDS = 120.0  # Java's delivery.timeout.ms
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1


class Producer:
    """Sends records to any topic of a cluster. `close` when done: it flushes."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        acks: int = -1,
        codec: Codec = Codec.NONE,
        idempotent: bool = True,
        batch_bytes: int = BATCH_BYTES,
        delivery_timeout: float = DELIVERY_TIMEOUT_SECONDS,
        sticky_start: int = 0,
    ) -> None:
        if idempotent and acks != -1:
            raise ValueError("an idempotent producer needs acks=all")
        self._cluster = cluster
        self._idempotent = idempotent
        self._batch_bytes = batch_bytes
        self._sticky_start = sticky_start
        self._outboxes: dict[TopicPartition, Outbox] = {}
        self._sticky: dict[str, StickyChoice] = {}
        self._identity: Identity | None = None
        self._identifying = asyncio.Lock()
        self._buffered_bytes = 0
        self._room = asyncio.Event()
        self._room.set()
        self._delivery = Delivery(
            acks,
            codec,
            batch_bytes,
            int(cluster.request_timeout * 1000),
            cluster.retries._replace(give_up_after=delivery_timeout),
            self._identify,
            self._freed,
        )

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp: int | None = None,
        partition: int | None = None,
    ) -> "asyncio.Future[Delivered]":
        """Queue one record; ApiError at once when the topic or the partition is unknown."""
        while self._buffered_bytes > CLIENT_BUFFER_BYTES_MAX:
            self._room.clear()
            await self._room.wait()
        size = _record_bytes(key, value, headers)
        target = await self._target(topic, key, partition, size)
        outbox = self._outboxes.get(target)
        if outbox is None:
            outbox = self._outboxes[target] = Outbox(self._cluster, target, self._delivery)
        self._buffered_bytes += size
        stamp = self._cluster.clock.wall_ms() if timestamp is None else timestamp
        return outbox.put(Record(timestamp=stamp, key=key, value=value, headers=headers), size)

    async def flush(self) -> None:
        """Wait until everything sent was kept or has failed."""
        for outbox in list(self._outboxes.values()):
            await outbox.flush()

    async def close(self) -> None:
        """Flush; a cancelled close gives up what is still queued."""
        try:
            await self.flush()
        finally:
            for outbox in self._outboxes.values():
                outbox.cancel()

    async def _target(self, name: str, key: bytes | None, partition: int | None, size: int) -> TopicPartition:
        topic = await self._cluster.topic(name)
        if partition is not None:
            return TopicPartition(name, topic.partition(partition).number)
        count = len(topic.partitions)
        if key is not None:
            return TopicPartition(name, partition_for_key(key, count))
        if name not in self._sticky:
            self._sticky[name] = StickyChoice(self._batch_bytes, self._sticky_start)
        return TopicPartition(name, self._sticky[name].choose(count, size))

    async def _identify(self, lost: Identity | None) -> Identity:
        """The producer id for a partition: shared by all until one of them has lost its sequence."""
        if not self._idempotent:
            return NO_IDENTITY
        async with self._identifying:
            if self._identity is None or self._identity == lost:
                self._identity = await self._cluster.retrying(self._new_identity)
            return self._identity

    async def _new_identity(self) -> Identity:
        connection = await self._cluster.any_broker()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
        response = await connection.call(request, InitProducerIdResponse)
        if response.error_code:
            raise ApiError(code_of(response.error_code), "no producer id")
        return Identity(response.producer_id, response.producer_epoch)

    def _freed(self, size: int) -> None:
        self._buffered_bytes -= size
        if self._buffered_bytes <= CLIENT_BUFFER_BYTES_MAX:
            self._room.set()


def _record_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    size = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    return size + sum(len(name) + len(content or b"") + 4 for name, content in headers)
