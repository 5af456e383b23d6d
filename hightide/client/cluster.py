"""A cluster as its clients see it: where to connect, who leads what, and whom to ask again.

Metadata is asked for when something unknown is needed, when it is older than its age limit, and at once after an error
that says it is stale (C26). Connections are opened when first used, one per broker and lane: a lane is a purpose, so
that a long poll never holds up a short request behind it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from hightide.client.connections import Connection
from hightide.client.metadata import ClusterMetadata, Topic
from hightide.client.ports import Clock, Network
from hightide.client.retries import RetryPolicy, retry
from hightide.errors import ApiError, ErrorCode
from hightide.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")

METADATA_AGE_SECONDS_MAX = 300.0  # Java's metadata.max.age.ms
REQUEST_TIMEOUT_SECONDS = 30.0  # Java's request.timeout.ms
_LOST_TOUCH = (ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)


def parse_bootstrap(text: str) -> list[tuple[str, int]]:
    """Addresses from `host:port,host:port`, IPv6 hosts in brackets; ValueError with a sentence for people."""
    addresses = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon or not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f"{part!r} is not an address; write host:port, for example 127.0.0.1:9092")
        addresses.append((host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError("no bootstrap address given; write host:port, for example 127.0.0.1:9092")
    return addresses


class Cluster:
    """The shared part of every client: metadata and connections. Close it when done."""

    def __init__(
        self,
        network: Network,
        clock: Clock,
        bootstrap: Sequence[tuple[str, int]],
        *,
        client_id: str = "hightide",
        retries: RetryPolicy | None = None,
        request_timeout: float = REQUEST_TIMEOUT_SECONDS,
    ) -> None:
        self.clock = clock
        self.retries = retries or RetryPolicy()
        self.request_timeout = request_timeout
        self._network = network
        self._bootstrap = list(bootstrap)
        self._client_id = client_id
        self._connections: dict[tuple[str, int, str], Connection] = {}
        self._opening: defaultdict[tuple[str, int, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._metadata: ClusterMetadata | None = None
        self._fresh_until = 0.0
        self._wanted: set[str] = set()
        self._asking = asyncio.Lock()

    def close(self) -> None:
        """Drop all connections; whoever waits for an answer gets NETWORK_EXCEPTION."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ------------------------------------------------------------------ metadata

    async def metadata(self) -> ClusterMetadata:
        """Brokers and the topics in use; cached until stale."""
        if self._metadata is not None and self.clock.now() < self._fresh_until:
            return self._metadata
        async with self._asking:  # whoever waited here finds the answer that the first one got
            if self._metadata is None or self.clock.now() >= self._fresh_until:
                topics = [MetadataRequestTopic(name=name) for name in sorted(self._wanted)]
                self._metadata = await self._ask(topics)
                self._fresh_until = self.clock.now() + METADATA_AGE_SECONDS_MAX
            return self._metadata

    async def topic(self, name: str) -> Topic:
        """One topic; ApiError says what is wrong with it: UNKNOWN_TOPIC_OR_PARTITION above all, never from a cache."""
        self._wanted.add(name)
        metadata = await self.metadata()
        if name not in metadata.topics:
            self.expire()
            metadata = await self.metadata()
        return metadata.topic(name)

    async def all_topics(self) -> ClusterMetadata:
        """Every topic of the cluster, asked for now and not cached."""
        return await self._ask(None)

    async def create_implicitly(self, name: str) -> None:
        """Let the broker create a missing topic, if it is so configured (`auto.create.topics.enable`)."""
        await self._ask([MetadataRequestTopic(name=name)], create=True)
        self.expire()

    def expire(self) -> None:
        """What is known is stale: ask before it is used again."""
        self._fresh_until = 0.0

    async def _ask(self, topics: list[MetadataRequestTopic] | None, *, create: bool = False) -> ClusterMetadata:
        connection = await self.any_broker()
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
        return ClusterMetadata(await connection.call(request, MetadataResponse))

    # ------------------------------------------------------------------ connections

    async def any_broker(self) -> Connection:
        """Whoever answers. BROKER_NOT_AVAILABLE, which nobody retries, when no bootstrap address ever did."""
        known = [] if self._metadata is None else [(b.host, b.port) for b in self._metadata.brokers.values()]
        reasons = []
        for host, port in dict.fromkeys([*known, *self._bootstrap]):
            try:
                return await self._connection(host, port, "")
            except ApiError as error:
                reasons.append(error.message or error.code.name)
        code = ErrorCode.BROKER_NOT_AVAILABLE if self._metadata is None else ErrorCode.NETWORK_EXCEPTION
        raise ApiError(code, f"no broker answers ({'; '.join(reasons)})")

    async def broker(self, node_id: int, lane: str = "") -> Connection:
        """A connection to one broker."""
        metadata = await self.metadata()
        broker = metadata.brokers.get(node_id)
        if broker is None:
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"broker {node_id} is not in the cluster")
        return await self._connection(broker.host, broker.port, lane)

    async def controller(self) -> Connection:
        """A connection to whom Metadata names as controller; any broker passes requests on when it names none."""
        metadata = await self.metadata()
        if metadata.controller_id in metadata.brokers:
            return await self.broker(metadata.controller_id)
        return await self.any_broker()

    async def _connection(self, host: str, port: int, lane: str) -> Connection:
        key = (host, port, lane)
        async with self._opening[key]:
            connection = self._connections.get(key)
            if connection is None or connection.closed_for is not None:
                connection = await Connection.open(
                    self._network, self.clock, host, port, client_id=self._client_id, timeout=self.request_timeout
                )
                self._connections[key] = connection
            return connection

    # ------------------------------------------------------------------ retries

    async def retrying(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until it works, an error comes that no retry mends, or time is up."""
        return await retry(self.clock, self.retries, attempt, self.heard)

    def heard(self, error: ApiError) -> None:
        """An error may mean that leaders or brokers are not where they were."""
        if error.refreshes_metadata or error.code in _LOST_TOUCH:
            self.expire()
