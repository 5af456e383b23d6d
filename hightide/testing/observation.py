"""What the brokers of a test cluster say, each for itself: asked over the wire, on the listeners that clients use.

Every node is asked, because one that is cut off or has just started tells an older story than the others.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster as ClientCluster
from hightide.client.connections import Connection
from hightide.client.metadata import ClusterMetadata, Partition
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.runtime.clock import LoopClock
from hightide.runtime.network import SocketNetwork
from hightide.testing.places import CLIENTS, CONTROLLERS, Place
from hightide.types import METADATA_TOPIC_ID, NO_BROKER
from hightide.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from hightide.wire.messages.metadata import MetadataRequest, MetadataResponse

CLIENT_ID = "hightide-testing"
ASK_SECONDS = 2.0
FETCH_VERSION = 17
NO_EPOCH_EVER = -2  # no leader is in this epoch: a Fetch with it is refused, credits nobody, and names the leader


class View(NamedTuple):
    """One broker's story: the brokers and whether they are fenced, and the topics."""

    fenced: dict[int, bool]
    metadata: ClusterMetadata


class Leadership(NamedTuple):
    """Whom a controller takes for the active one, and since which epoch."""

    epoch: int
    leader: int


class Observation:
    """Asks nodes; on the loop of the test cluster."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._network = SocketNetwork(loop)
        self._clock = LoopClock(loop)
        self._connections: dict[tuple[str, int], Connection] = {}

    def close(self) -> None:
        """Drop the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def views(self, places: Sequence[Place]) -> dict[int, View | ApiError]:
        """What each of these says, or why it says nothing."""
        said = await asyncio.gather(*(self._guarded_view(place) for place in places))
        return {place.node_id: view for place, view in zip(places, said, strict=True)}

    async def _guarded_view(self, place: Place) -> View | ApiError:
        try:
            return await self._view(place)
        except ApiError as error:
            return error
        except ProtocolError as error:
            return ApiError(ErrorCode.NETWORK_EXCEPTION, str(error))

    async def _view(self, place: Place) -> View:
        connection = await self._connection(place.host, place.port + CLIENTS)
        described = await connection.call(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse)
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        metadata = ClusterMetadata(await connection.call(request, MetadataResponse))
        return View({broker.broker_id: broker.is_fenced for broker in described.brokers}, metadata)

    async def leadership(self, places: Sequence[Place]) -> dict[int, Leadership]:
        """What each of these controllers believes; those that do not answer are left out."""
        said = await asyncio.gather(*(self._leadership(place) for place in places), return_exceptions=True)
        answered = zip(places, said, strict=True)
        return {place.node_id: belief for place, belief in answered if isinstance(belief, Leadership)}

    async def _leadership(self, place: Place) -> Leadership:
        connection = await self._connection(place.host, place.port + CONTROLLERS)
        asked = FetchPartition(partition=0, current_leader_epoch=NO_EPOCH_EVER, fetch_offset=0)
        topics = [FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[asked])]
        request = FetchRequest(max_wait_ms=0, session_epoch=-1, topics=topics)
        reply = await connection.call(request, FetchResponse, version=FETCH_VERSION)
        told = reply.responses[0].partitions[0].current_leader
        return Leadership(told.leader_epoch, told.leader_id)

    async def _connection(self, host: str, port: int) -> Connection:
        key = (host, port)
        known = self._connections.get(key)
        if known is None or known.closed_for is not None:
            known = await Connection.open(
                self._network, self._clock, host, port, client_id=CLIENT_ID, timeout=ASK_SECONDS
            )
            self._connections[key] = known
        return known

    async def create_topic(self, places: Sequence[Place], topic: NewTopic) -> None:
        """Create a topic; ApiError when that fails."""
        bootstrap = [(place.host, place.port + CLIENTS) for place in places]
        cluster = ClientCluster(self._network, self._clock, bootstrap, client_id=CLIENT_ID)
        try:
            outcome = (await Admin(cluster).create_topics([topic]))[topic.name]
        finally:
            cluster.close()
        if outcome is not None:
            raise outcome


def complaints(views: dict[int, View | ApiError], node_ids: Sequence[int]) -> list[str]:
    """Why the cluster is not healthy: some broker fenced, some partition without a leader or its full in-sync set.

    All must say the same, which needs no more than the epochs: they tell one state of a partition from another.
    """
    wrong = []
    epochs: dict[tuple[str, int], dict[int, tuple[int, int]]] = {}
    for node_id, view in views.items():
        if isinstance(view, ApiError):
            wrong.append(f"node {node_id} does not answer: {view.message or view.code.name}")
            continue
        strangers = [other for other in node_ids if view.fenced.get(other, True)]
        if strangers:
            wrong.append(f"node {node_id} takes brokers {strangers} for fenced")
        for topic in view.metadata.topics.values():
            for partition in topic.partitions.values():
                wrong += _partition_complaints(node_id, topic.name, partition)
                state = (partition.leader, partition.leader_epoch)
                epochs.setdefault((topic.name, partition.number), {})[node_id] = state
    for (topic_name, number), said in epochs.items():
        if len(said) < len(views) or len(set(said.values())) > 1:
            wrong.append(f"the nodes do not agree yet who leads {topic_name}-{number}: {said}")
    return wrong


def _partition_complaints(node_id: int, topic: str, partition: Partition) -> list[str]:
    where = f"{topic}-{partition.number}, says node {node_id},"
    if partition.leader == NO_BROKER:
        return [f"{where} has no leader"]
    missing = set(partition.replicas) - set(partition.in_sync_replicas)
    return [f"{where} is not in sync on {sorted(missing)}"] if missing else []


def newest(views: dict[int, View | ApiError], topic: str, number: int) -> Partition | None:
    """A partition as the broker with the newest leader epoch knows it; None when nobody knows it."""
    known = [
        view.metadata.topics[topic].partitions[number]
        for view in views.values()
        if isinstance(view, View) and topic in view.metadata.topics and number in view.metadata.topics[topic].partitions
    ]
    return max(known, key=lambda partition: partition.leader_epoch, default=None)
