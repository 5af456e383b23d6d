"""Sending packed batches: one producer per task, one request per partition at a time, until the broker has kept each.

At least once: a task that fails after some of its batches were kept is run again by Spark, and sends them again. Within
a task nothing is sent twice: a batch that is repeated is byte for byte the same, with its producer id and sequence, and
the broker recognises it (N11).
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.retries import retry
from hightide.errors import ApiError, ErrorCode
from hightide.limits import MIB
from hightide.spark.encoding import PackedBatch, SinkError
from hightide.spark.kafka_options import Delivery
from hightide.types import NO_EPOCH, NO_PRODUCER_ID, TopicPartition
from hightide.wire.batches import NO_SEQUENCE, build_batch
from hightide.wire.compression import Codec, compress
from hightide.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hightide.wire.messages.metadata import MetadataRequest, MetadataResponse
from hightide.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from hightide.wire.records import (
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    MAGIC,
    iterate_records,
    patch_crc,
    read_header,
)

PRODUCE_LANE = "produce"
UNSENT_BYTES_MAX = 32 * MIB  # of one task: encoding waits while more than that is on its way
_NO_TRANSACTION_TIMEOUT_MS = 2**31 - 1
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class _Stamped(NamedTuple):
    """A batch with its header, ready to be sent, again and again if need be."""

    data: bytearray
    record_count: int


class Sender:
    """One task's producer. Everything happens on the client's loop; `flush` raises what went wrong first."""

    def __init__(self, cluster: Cluster, delivery: Delivery) -> None:
        self._cluster = cluster
        self._delivery = delivery
        self._identity = (NO_PRODUCER_ID, NO_EPOCH)
        self._sequences: dict[TopicPartition, int] = {}
        self._tails: dict[TopicPartition, asyncio.Task[None]] = {}
        self._unsent_bytes = 0
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self.records = 0
        self.bytes = 0

    async def open(self) -> None:
        """Get a producer id, unless the options say that none is wanted."""
        if self._delivery.idempotent:
            self._identity = await self._cluster.retrying(self._new_identity)

    async def partition_count(self, topic: str) -> int:
        """How many partitions a topic has; a missing one is created if the brokers are so configured."""
        try:
            return len((await self._cluster.topic(topic)).partitions)
        except ApiError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise SinkError(f"topic {topic}: {error}") from error
        await self._cluster.create_implicitly(topic)
        policy = self._cluster.retries._replace(give_up_after=5.0)
        try:
            found = await retry(
                self._cluster.clock, policy, lambda: self._cluster.topic(topic), lambda _: self._cluster.expire()
            )
        except ApiError as error:
            what = f"topic {topic} does not exist and the brokers do not create it: `hightide topic create {topic}`"
            raise SinkError(what) from error
        return len(found.partitions)

    async def put(self, batch: PackedBatch) -> None:
        """Send a batch when those before it are kept; waits while too much is on its way."""
        while self._unsent_bytes > UNSENT_BYTES_MAX and self._failure is None:
            self._changed.clear()
            await self._changed.wait()
        if self._failure is not None:
            raise self._failure
        stamped = self._stamp(batch)
        size = len(stamped.data)
        self._unsent_bytes += size
        before = self._tails.get(batch.partition)
        self._tails[batch.partition] = asyncio.ensure_future(self._after(before, batch.partition, stamped, size))
        self.records += batch.record_count
        self.bytes += size

    async def flush(self) -> None:
        """Wait until everything is kept; raise what was not."""
        await asyncio.gather(*self._tails.values())
        if self._failure is not None:
            raise self._failure

    async def _after(
        self, before: "asyncio.Task[None] | None", where: TopicPartition, batch: _Stamped, size: int
    ) -> None:
        if before is not None:
            await before
        try:
            if self._failure is None:
                await self._deliver(where, batch)
        except Exception as error:
            self._failure = self._failure or error
        finally:
            self._unsent_bytes -= size
            self._changed.set()

    async def _deliver(self, where: TopicPartition, batch: _Stamped) -> None:
        policy = self._cluster.retries._replace(give_up_after=self._delivery.delivery_timeout)
        attempt: Callable[[], Awaitable[None]] = lambda: self._attempt(where, batch.data)  # noqa: E731
        try:
            await retry(self._cluster.clock, policy, attempt, self._cluster.heard)
        except ApiError as error:
            if error.code not in _TOO_LARGE:
                raise SinkError(f"a batch of {batch.record_count} records was not kept: {error}") from error
            if batch.record_count == 1:
                what = f"a record of {len(batch.data)} bytes is larger than topic {where.topic} takes: raise its"
                raise SinkError(f"{what} max.message.bytes ({error})") from error
            for half in self._halves(batch):
                await self._deliver(where, half)

    async def _attempt(self, where: TopicPartition, data: bytearray) -> None:
        topic = await self._cluster.topic(where.topic)
        connection = await self._cluster.broker(topic.leader(where.partition).leader, PRODUCE_LANE)
        partitions = [PartitionProduceData(index=where.partition, records=memoryview(data))]
        produced = TopicProduceData(name=where.topic, topic_id=topic.id, partition_data=partitions)
        timeout_ms = int(self._cluster.request_timeout * 1000)
        request = ProduceRequest(acks=self._delivery.acks, timeout_ms=timeout_ms, topic_data=[produced])
        if self._delivery.acks == 0:
            connection.tell(request)
            # Nobody answers that. The answer to a question behind it tells that the broker has read it, and keeps us
            # from filling the connection's buffer, which would break it.
            await connection.call(MetadataRequest(topics=[], allow_auto_topic_creation=False), MetadataResponse)
            return
        response = await connection.call(request, ProduceResponse)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code and answer.error_code != ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # kept already is kept
            raise ApiError(code_of(answer.error_code), f"partition {where}; {answer.error_message or ''}")

    def _stamp(self, batch: PackedBatch) -> _Stamped:
        """Compress a batch and give it its header: the sequence is decided here, in the order of `put`."""
        data = batch.data
        codec = self._delivery.codec
        if codec is not Codec.NONE:
            payload = compress(codec, memoryview(data)[HEADER_BYTES:], self._delivery.level)
            data = bytearray(HEADER_BYTES) + payload
        producer_id, epoch = self._identity
        sequence = NO_SEQUENCE
        if producer_id != NO_PRODUCER_ID:
            sequence = self._sequences.get(batch.partition, 0)
            self._sequences[batch.partition] = (sequence + batch.record_count) & 0x7FFFFFFF
        now = self._cluster.clock.wall_ms()
        length = len(data) - LENGTH_OVERHEAD
        HEADER.pack_into(
            data, 0, 0, length, NO_EPOCH, MAGIC, 0, codec, batch.record_count - 1, now, now, producer_id, epoch,
            sequence, batch.record_count,
        )  # fmt: skip
        patch_crc(data, 0, length)
        return _Stamped(data, batch.record_count)

    def _halves(self, batch: _Stamped) -> list[_Stamped]:
        """The same records with the same sequences in two batches: rare, so the slow way will do."""
        header = read_header(batch.data)
        records = [record._replace(offset=-1) for record in iterate_records(batch.data, 0, header)]
        middle = len(records) // 2
        made = []
        for first, part in ((0, records[:middle]), (middle, records[middle:])):
            sequence = header.base_sequence
            if sequence != NO_SEQUENCE:
                sequence = (sequence + first) & 0x7FFFFFFF
            data = build_batch(
                part, codec=self._delivery.codec, level=self._delivery.level, producer_id=header.producer_id,
                producer_epoch=header.producer_epoch, base_sequence=sequence,
            )  # fmt: skip
            made.append(_Stamped(data, len(part)))
        return made

    async def _new_identity(self) -> tuple[int, int]:
        connection = await self._cluster.any_broker()
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS)
        response = await connection.call(request, InitProducerIdResponse)
        if response.error_code:
            raise ApiError(code_of(response.error_code), "no producer id")
        return response.producer_id, response.producer_epoch
