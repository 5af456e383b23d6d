"""The records on their way to one partition: batched, one request at a time, in order, sent again until they are kept.

While a request is under way the next batch fills up, so batches grow with the load and nobody waits for a linger time.
One request at a time also keeps order and sequences simple: a batch that is sent again is byte for byte the same, with
the same sequence, so the broker recognises it (N11).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.retries import RetryPolicy, retry
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.types import NO_OFFSET, NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from hightide.wire.records import Record

PRODUCE_LANE = "produce"
_SPLITTABLE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_SEQUENCE_LOST = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.PRODUCER_FENCED,
)


class Delivered(NamedTuple):
    """Where a record is kept. The offset is -1 when the broker did not tell it: acks=0, or a repeated old batch."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class Identity(NamedTuple):
    """A producer id and its epoch."""

    producer_id: int
    epoch: int


NO_IDENTITY = Identity(NO_PRODUCER_ID, -1)


class Delivery(NamedTuple):
    """How batches are sent: the same for all partitions of a producer."""

    acks: int
    codec: Codec
    batch_bytes: int
    timeout_ms: int
    retries: RetryPolicy
    identify: Callable[[Identity | None], Awaitable[Identity]]
    freed: Callable[[int], None]


class _Batch:
    """Records and the futures of those who sent them."""

    __slots__ = ("futures", "records", "size")

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.futures: list[asyncio.Future[Delivered]] = []
        self.size = 0

    def halves(self) -> "tuple[_Batch, _Batch]":
        """The same records in two batches."""
        middle = len(self.records) // 2
        first, second = _Batch(), _Batch()
        first.records, second.records = self.records[:middle], self.records[middle:]
        first.futures, second.futures = self.futures[:middle], self.futures[middle:]
        first.size = self.size // 2
        second.size = self.size - first.size
        return first, second


class Outbox:
    """One partition's queue and the task that empties it."""

    def __init__(self, cluster: Cluster, partition: TopicPartition, delivery: Delivery) -> None:
        self._cluster = cluster
        self._partition = partition
        self._delivery = delivery
        self._batches: deque[_Batch] = deque()
        self._identity: Identity | None = None
        self._lost_identity: Identity | None = None
        self._sequence = 0
        self._task: asyncio.Task[None] | None = None

    def put(self, record: Record, size: int) -> "asyncio.Future[Delivered]":
        """Queue a record; the future tells where it is kept, or why not."""
        future: asyncio.Future[Delivered] = asyncio.get_running_loop().create_future()
        if not self._batches or self._batches[-1].size + size > self._delivery.batch_bytes:
            self._batches.append(_Batch())
        batch = self._batches[-1]
        batch.records.append(record)
        batch.futures.append(future)
        batch.size += size
        if self._task is None:
            self._task = asyncio.ensure_future(self._drain())
        return future

    async def flush(self) -> None:
        """Wait until nothing is queued or under way; failures are with the futures."""
        while self._task is not None:
            await asyncio.wait({self._task})

    def cancel(self) -> None:
        """Stop; what is queued is lost and its futures are cancelled."""
        if self._task is not None:
            self._task.cancel()

    async def _drain(self) -> None:
        try:
            while self._batches:
                batch = self._batches.popleft()
                try:
                    answer = await self._deliver(batch)
                except ApiError as error:
                    if error.code in _SPLITTABLE and len(batch.records) > 1:
                        self._batches.extendleft(reversed(batch.halves()))
                        continue
                    self._failed(batch, error)
                except ProtocolError as error:
                    self._failed(batch, ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
                except asyncio.CancelledError:
                    self._batches.appendleft(batch)
                    raise
                else:
                    self._succeeded(batch, answer)
        finally:
            self._task = None
            for batch in self._batches:
                for future in batch.futures:
                    future.cancel()
                self._delivery.freed(batch.size)
            self._batches.clear()

    async def _deliver(self, batch: _Batch) -> PartitionProduceResponse:
        if self._identity is None:
            self._identity = await self._delivery.identify(self._lost_identity)
            self._sequence = 0
        identified = self._identity is not NO_IDENTITY
        data = build_batch(
            batch.records,
            codec=self._delivery.codec,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=self._sequence if identified else -1,
        )
        cluster = self._cluster
        return await retry(cluster.clock, self._delivery.retries, lambda: self._attempt(data), cluster.heard)

    async def _attempt(self, data: bytearray) -> PartitionProduceResponse:
        name, index = self._partition
        topic = await self._cluster.topic(name)
        connection = await self._cluster.broker(topic.leader(index).leader, PRODUCE_LANE)
        partition_data = [PartitionProduceData(index=index, records=memoryview(data))]
        produced = TopicProduceData(name=name, topic_id=topic.id, partition_data=partition_data)
        delivery = self._delivery
        request = ProduceRequest(acks=delivery.acks, timeout_ms=delivery.timeout_ms, topic_data=[produced])
        if delivery.acks == 0:
            connection.tell(request)
            return PartitionProduceResponse(index=index, base_offset=NO_OFFSET)
        response = await connection.call(request, ProduceResponse)
        answer = response.responses[0].partition_responses[0]
        if answer.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:  # kept already, too long ago to know where
            return PartitionProduceResponse(index=index, base_offset=NO_OFFSET)
        if answer.error_code:
            raise ApiError(code_of(answer.error_code), _explain(self._partition, answer))
        return answer

    def _succeeded(self, batch: _Batch, answer: PartitionProduceResponse) -> None:
        self._sequence = (self._sequence + len(batch.records)) & 0x7FFFFFFF
        self._delivery.freed(batch.size)
        base, append_time = answer.base_offset, answer.log_append_time_ms
        for index, (record, future) in enumerate(zip(batch.records, batch.futures, strict=True)):
            if not future.done():
                offset = NO_OFFSET if base == NO_OFFSET else base + index
                timestamp = record.timestamp if append_time == NO_TIMESTAMP else append_time
                future.set_result(Delivered(*self._partition, offset, timestamp))

    def _failed(self, batch: _Batch, error: ApiError) -> None:
        # A batch that may or may not have been kept leaves its sequence in doubt: the next one starts a new identity.
        if error.retriable or error.code in _SEQUENCE_LOST:
            self._lost_identity, self._identity = self._identity, None
        self._delivery.freed(batch.size)
        for future in batch.futures:
            if not future.done():
                future.set_exception(error)
                future.exception()  # whoever does not look has chosen so: no warning about it


def _explain(partition: TopicPartition, answer: PartitionProduceResponse) -> str:
    reasons = [record.batch_index_error_message for record in answer.record_errors if record.batch_index_error_message]
    return "; ".join([f"partition {partition}", *filter(None, [answer.error_message]), *reasons[:3]])
