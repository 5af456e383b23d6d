"""What `hightide cluster` tells: brokers, controllers and replicas, gathered from all of them at once."""

import asyncio
from typing import NamedTuple, TypedDict

from hightide.client.admin import Admin
from hightide.client.cluster import Cluster
from hightide.client.metadata import ClusterMetadata, Partition
from hightide.errors import ApiError
from hightide.wire.messages.describe_log_dirs import DescribeLogDirsResult


class BrokerFacts(TypedDict):
    """One broker; sizes are None when it did not tell."""

    id: int
    address: str
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    log_bytes: int | None
    disk_bytes_free: int | None


class ControllerFacts(TypedDict):
    """One voter of the metadata quorum. `lag` is in records of the metadata log."""

    id: int
    role: str
    log_end: int
    lag: int


class ReplicaFacts(TypedDict):
    """One replica; numbers are None when its broker did not tell."""

    topic: str
    partition: int
    broker: int
    role: str
    in_sync: bool
    log_end: int | None
    high_watermark: int | None
    lag: int | None


class ClusterFacts(NamedTuple):
    """All of it, seen at about the same time."""

    cluster_id: str
    brokers: list[BrokerFacts]
    controller_epoch: int | None
    controllers: list[ControllerFacts]
    replicas: list[ReplicaFacts]
    metadata: ClusterMetadata

    @property
    def partitions(self) -> dict[str, Partition]:
        """Every partition by its name."""
        return {
            f"{topic.name}-{partition.number}": partition
            for topic in self.metadata.topics.values()
            for partition in topic.partitions.values()
        }


async def cluster_facts(cluster: Cluster) -> ClusterFacts:
    """Ask everyone; a broker that does not answer is still shown, without its numbers."""
    admin = Admin(cluster)
    described, metadata = await asyncio.gather(admin.describe_cluster(), cluster.all_topics())
    ordered = sorted(described.brokers, key=lambda broker: broker.broker_id)
    (epoch, controllers), directories = await asyncio.gather(
        _controllers(admin), asyncio.gather(*(_directories(admin, broker.broker_id) for broker in ordered))
    )
    partitions = [partition for topic in metadata.topics.values() for partition in topic.partitions.values()]
    brokers = [
        BrokerFacts(
            id=broker.broker_id,
            address=f"{broker.host}:{broker.port}",
            rack=broker.rack,
            controller=broker.broker_id == described.controller_id,
            leaders=sum(partition.leader == broker.broker_id for partition in partitions),
            replicas=sum(broker.broker_id in partition.replicas for partition in partitions),
            log_bytes=_log_bytes(told),
            disk_bytes_free=_disk_bytes_free(told),
        )
        for broker, told in zip(ordered, directories, strict=True)
    ]
    ends = {broker["id"]: _ends(told) for broker, told in zip(brokers, directories, strict=True)}
    return ClusterFacts(described.cluster_id, brokers, epoch, controllers, _replicas(metadata, ends), metadata)


async def _controllers(admin: Admin) -> tuple[int | None, list[ControllerFacts]]:
    try:
        quorum = await admin.describe_quorum()
    except ApiError:
        return None, []
    leader_end = max((voter.log_end_offset for voter in quorum.current_voters), default=0)
    voters = sorted(quorum.current_voters, key=lambda voter: voter.replica_id)
    return quorum.leader_epoch, [
        ControllerFacts(
            id=voter.replica_id,
            role="leader" if voter.replica_id == quorum.leader_id else "voter",
            log_end=voter.log_end_offset,
            lag=leader_end - voter.log_end_offset,
        )
        for voter in voters
    ]


async def _directories(admin: Admin, broker_id: int) -> list[DescribeLogDirsResult] | None:
    try:
        return await admin.describe_log_dirs(broker_id)
    except ApiError:
        return None


def _log_bytes(told: list[DescribeLogDirsResult] | None) -> int | None:
    if told is None:
        return None
    return sum(part.partition_size for directory in told for topic in directory.topics for part in topic.partitions)


def _disk_bytes_free(told: list[DescribeLogDirsResult] | None) -> int | None:
    free = [directory.usable_bytes for directory in told or () if directory.usable_bytes >= 0]
    return sum(free) if free else None


Ends = dict[tuple[str, int], tuple[int, int]]


def _ends(told: list[DescribeLogDirsResult] | None) -> Ends:
    """Log end and high watermark of a broker's replicas; nothing of one that is no hightide."""
    return {
        (topic.name, part.partition_index): (part.log_end_offset, part.high_watermark)
        for directory in told or ()
        for topic in directory.topics
        for part in topic.partitions
        if part.log_end_offset >= 0
    }


def _replicas(metadata: ClusterMetadata, ends: dict[int, Ends]) -> list[ReplicaFacts]:
    none: tuple[None, None] = (None, None)
    rows = []
    for topic in sorted(metadata.topics.values(), key=lambda topic: topic.name):
        for partition in topic.partitions.values():
            where = (topic.name, partition.number)
            leader_end = ends.get(partition.leader, {}).get(where, none)[0]
            for broker in partition.replicas:
                end, high_watermark = ends.get(broker, {}).get(where, none)
                rows.append(
                    ReplicaFacts(
                        topic=topic.name,
                        partition=partition.number,
                        broker=broker,
                        role="leader" if broker == partition.leader else "follower",
                        in_sync=broker in partition.in_sync_replicas,
                        log_end=end,
                        high_watermark=high_watermark,
                        lag=None if end is None or leader_end is None else max(0, leader_end - end),
                    )
                )
    return rows
