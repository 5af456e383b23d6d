"""A cluster in memory for the client's tests: scripted brokers behind `client.ports.Network`, and virtual time.

Requests and answers go through the real codecs. A broker keeps the batches it is sent in one list per partition; a test
scripts errors with `fail` and watches `seen`. Time moves only when everybody waits for it.
"""

import asyncio
import heapq
import itertools
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from hightide.client.cluster import Cluster
from hightide.client.ports import Bytes, FrameReceiver, Transport
from hightide.client.retries import RetryPolicy
from hightide.errors import ErrorCode
from hightide.types import NO_OFFSET, TopicPartition
from hightide.wire.headers import RequestHeader, write_response_header
from hightide.wire.message import ApiMessage
from hightide.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from hightide.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from hightide.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from hightide.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from hightide.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from hightide.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from hightide.wire.primitives import Reader
from hightide.wire.records import iterate_headers, patch_offsets
from hightide.wire.versions import VALID_VERSIONS, request_class

T = TypeVar("T")
Answer = Callable[[Any], ApiMessage | None]
TURNS_BEFORE_TIME_MOVES = 50


class VirtualTimer:
    """A pending call on virtual time."""

    def __init__(self, callback: Callable[..., object], args: tuple[object, ...]) -> None:
        self.callback, self.args, self.cancelled = callback, args, False

    def cancel(self) -> None:
        self.cancelled = True


class VirtualClock:
    """`client.ports.Clock` that stands still until `run` moves it."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.timers: list[tuple[float, int, VirtualTimer]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self.time

    def wall_ms(self) -> int:
        return int(self.time * 1000)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> VirtualTimer:
        timer = VirtualTimer(callback, args)
        heapq.heappush(self.timers, (self.time + seconds, next(self._order), timer))
        return timer

    def move(self) -> bool:
        """Jump to the next timer and call it; False when there is none."""
        while self.timers:
            self.time, _, timer = heapq.heappop(self.timers)
            if not timer.cancelled:
                timer.callback(*timer.args)
                return True
        return False


class MemoryTransport:
    """`client.ports.Transport` into a broker; answers arrive on a later turn of the loop."""

    def __init__(self, cluster: "MemoryCluster", broker: int) -> None:
        self.cluster, self.broker = cluster, broker
        self.receiver: FrameReceiver | None = None
        self.open = True

    def send(self, parts: Sequence[Bytes]) -> None:
        frame = b"".join(parts)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        answer = self.cluster.handle(self.broker, frame[4:])
        if answer is not None:
            asyncio.get_running_loop().call_soon(self._deliver, answer)

    def close(self) -> None:
        if self.open:
            self.open = False
            assert self.receiver is not None
            asyncio.get_running_loop().call_soon(self.receiver.closed)

    def _deliver(self, answer: bytes) -> None:
        if self.open and self.receiver is not None:
            self.receiver.frame(memoryview(bytearray(answer)))


class MemoryCluster:
    """`client.ports.Network` with brokers 1 to n on ports 9001 to 900n; partition p is led by broker p mod n + 1."""

    def __init__(self, brokers: int = 1, topics: dict[str, int] | None = None) -> None:
        self.clock = VirtualClock()
        self.brokers = list(range(1, brokers + 1))
        self.topics = topics or {}
        self.leaders = {
            TopicPartition(name, index): self.brokers[index % brokers]
            for name, count in self.topics.items()
            for index in range(count)
        }
        self.logs: defaultdict[TopicPartition, list[bytearray]] = defaultdict(list)
        self.ends: defaultdict[TopicPartition, int] = defaultdict(int)
        self.starts: defaultdict[TopicPartition, int] = defaultdict(int)
        self.seen: list[tuple[int, ApiMessage]] = []
        self.versions = dict(VALID_VERSIONS)
        self.silent: set[type[ApiMessage]] = set()
        self.down: set[int] = set()
        self.connections: list[MemoryTransport] = []
        self._failures: defaultdict[type[ApiMessage], deque[ErrorCode]] = defaultdict(deque)
        self._identities = itertools.count(7000)
        self.answers: dict[type[ApiMessage], Answer] = {
            MetadataRequest: self._metadata,
            InitProducerIdRequest: self._init_producer_id,
            ProduceRequest: self._produce,
            ListOffsetsRequest: self._list_offsets,
            FetchRequest: self._fetch,
        }

    def client(self, **options: Any) -> Cluster:
        options.setdefault("retries", RetryPolicy(give_up_after=10.0))
        return Cluster(self, self.clock, [("broker", 9001)], **options)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end; when nothing happens any more, time moves on."""
        return asyncio.run(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.ensure_future(work)
        while not task.done():
            for _ in range(TURNS_BEFORE_TIME_MOVES):
                await asyncio.sleep(0)
            if not task.done():
                assert self.clock.move(), "everybody waits and no time is left to pass"
        return await task

    def fail(self, request: type[ApiMessage], *codes: ErrorCode) -> None:
        """The next requests of this kind are answered with these errors."""
        self._failures[request].extend(codes)

    def requests(self, kind: type[T]) -> list[T]:
        """What was asked, in order."""
        return [request for _, request in self.seen if isinstance(request, kind)]

    async def connect(self, host: str, port: int, receiver: Callable[[Transport], FrameReceiver]) -> MemoryTransport:
        broker = port - 9000
        if broker in self.down or broker not in self.brokers:
            raise ConnectionRefusedError(111, "Connection refused")
        transport = MemoryTransport(self, broker)
        transport.receiver = receiver(transport)
        self.connections.append(transport)
        return transport

    def handle(self, broker: int, frame: bytes) -> bytes | None:
        """The answer of a broker to one request; None for silence."""
        header, position = RequestHeader.decode(frame)
        kind = request_class(header.api_key)
        request = kind.read(Reader(frame, position), header.api_version)
        self.seen.append((broker, request))
        if kind in self.silent:
            return None
        answer = self._api_versions() if header.api_key == 18 else self.answers[kind](request)
        if answer is None:
            return None
        out = bytearray()
        write_response_header(out, header.api_key, header.api_version, header.correlation_id)
        answer.write(out, header.api_version)
        return bytes(out)

    def _next_error(self, kind: type[ApiMessage]) -> ErrorCode:
        failures = self._failures[kind]
        return failures.popleft() if failures else ErrorCode.NONE

    def _api_versions(self) -> ApiMessage:
        keys = [
            ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in self.versions.items()
        ]
        return ApiVersionsResponse(api_keys=keys)

    def _metadata(self, request: MetadataRequest) -> ApiMessage:
        names = list(self.topics) if request.topics is None else [topic.name or "" for topic in request.topics]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=n, host="broker", port=9000 + n) for n in self.brokers],
            cluster_id="memory",
            controller_id=self.brokers[0],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name not in self.topics:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
        partitions = [
            MetadataResponsePartition(
                partition_index=index,
                leader_id=self.leaders[TopicPartition(name, index)],
                leader_epoch=1,
                replica_nodes=[1],
                isr_nodes=[1],
            )
            for index in range(self.topics[name])
        ]
        return MetadataResponseTopic(name=name, topic_id=topic_id(name), partitions=partitions)

    def _init_producer_id(self, request: InitProducerIdRequest) -> ApiMessage:
        error = self._next_error(InitProducerIdRequest)
        return InitProducerIdResponse(error_code=error, producer_id=next(self._identities), producer_epoch=0)

    def _produce(self, request: ProduceRequest) -> ApiMessage | None:
        responses = []
        for topic in request.topic_data:
            name = topic.name or self._name_of(topic.topic_id)
            for data in topic.partition_data:
                answer = self._append(TopicPartition(name, data.index), bytearray(data.records or b""))
                responses.append(TopicProduceResponse(name=name, topic_id=topic_id(name), partition_responses=[answer]))
        return None if request.acks == 0 else ProduceResponse(responses=responses)

    def _append(self, where: TopicPartition, batch: bytearray) -> PartitionProduceResponse:
        error = self._next_error(ProduceRequest)
        if error:
            return PartitionProduceResponse(index=where.partition, error_code=error, base_offset=NO_OFFSET)
        base = self.ends[where]
        patch_offsets(batch, 0, base, 1)
        ((_, header),) = iterate_headers(batch)
        self.logs[where].append(batch)
        self.ends[where] = header.next_offset
        return PartitionProduceResponse(index=where.partition, base_offset=base)

    def _list_offsets(self, request: ListOffsetsRequest) -> ApiMessage:
        topics = []
        for topic in request.topics:
            partitions = []
            for asked in topic.partitions:
                where = TopicPartition(topic.name, asked.partition_index)
                offset = {-1: self.ends[where], -2: self.starts[where]}[asked.timestamp]
                error = self._next_error(ListOffsetsRequest)
                partitions.append(
                    ListOffsetsPartitionResponse(
                        partition_index=asked.partition_index, error_code=error, offset=offset, leader_epoch=1
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
        return ListOffsetsResponse(topics=topics)

    def _fetch(self, request: FetchRequest) -> ApiMessage:
        responses = []
        for topic in request.topics:
            name = topic.topic or self._name_of(topic.topic_id)
            partitions = [
                self._read(TopicPartition(name, asked.partition), asked.fetch_offset) for asked in topic.partitions
            ]
            responses.append(FetchableTopicResponse(topic=name, topic_id=topic_id(name), partitions=partitions))
        return FetchResponse(responses=responses)

    def _read(self, where: TopicPartition, offset: int) -> PartitionData:
        error = self._next_error(FetchRequest)
        if not error and not self.starts[where] <= offset <= self.ends[where]:
            error = ErrorCode.OFFSET_OUT_OF_RANGE
        batches = [batch for batch in self.logs[where] if next(iterate_headers(batch))[1].next_offset > offset]
        return PartitionData(
            partition_index=where.partition,
            error_code=error,
            high_watermark=self.ends[where],
            log_start_offset=self.starts[where],
            records=b"" if error else b"".join(batches[:2]),
        )

    def _name_of(self, wanted: bytes) -> str:
        return next(name for name in self.topics if topic_id(name) == wanted)


def topic_id(name: str) -> bytes:
    """An id that belongs to a name."""
    return name.encode().ljust(16, b"\0")[:16]
