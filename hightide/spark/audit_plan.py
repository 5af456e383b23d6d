"""What an audit compares, and how far: asked of the cluster by the driver, before anything is read (S4).

The order is the law. The leader's high watermark is read first, then who is in sync, then what each replica has:
whoever is in sync at that later moment holds everything below the earlier mark, or something is wrong with it. Who that
is, the leader itself says, since its mark can't pass a member that it still counts; other brokers may be cut off and
live in the past. Replicas that are not in sync are compared up to their own high watermark.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from heapq import heapreplace
from typing import NamedTuple

from hightide.client.admin import Admin
from hightide.client.cluster import Cluster
from hightide.client.configs import Resource, ResourceType, describe_configs
from hightide.client.metadata import ClusterMetadata, Partition
from hightide.client.replicas import ReplicaRange, replica_ranges
from hightide.errors import ApiError, ErrorCode
from hightide.types import NO_BROKER, NO_OFFSET, TopicPartition
from hightide.wire.messages.metadata import MetadataRequest, MetadataResponse

TASKS_PER_SLOT = 2  # so that a slow broker holds up half a slot's work, not all of it
SPLIT_BYTES = 256 * 1024 * 1024  # of one replica in one task: a minute at most, and a retry costs no more

Key = tuple[int, TopicPartition]
"""A replica: its broker and its partition."""


class Role(StrEnum):
    """What a replica is, when the audit begins."""

    LEADER = "leader"
    IN_SYNC = "in sync"
    LAGGING = "lagging"


class Replica(NamedTuple):
    """One replica and the range in which it must match the leader: [start, bound)."""

    topic: str
    partition: int
    broker: int
    role: Role
    start: int
    bound: int
    size: int | None
    compacted: bool
    unreachable: str = ""

    @property
    def key(self) -> Key:
        """Which one it is."""
        return self.broker, TopicPartition(self.topic, self.partition)


class Split(NamedTuple):
    """What one task reads: the batches of a replica that begin in [start, end); the first also the one before."""

    topic: str
    partition: int
    broker: int
    start: int
    end: int
    bound: int
    compacted: bool
    is_first: bool
    size: int


class Plan(NamedTuple):
    """Everything to compare, and the partitions without a leader, of which nothing can be said."""

    replicas: Sequence[Replica]
    leaderless: Sequence[TopicPartition]


async def make_plan(
    cluster: Cluster, topics: Collection[str] | None, only: Collection[TopicPartition] | None = None
) -> Plan:
    """Look at these topics (all without names, internal ones too), or at these partitions of them alone."""
    before = await _partitions(cluster, topics, only)
    if missing := set(topics or ()) - {where.topic for where in before}:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {min(missing)!r}")
    led = [(partition.leader, where) for where, partition in before.items() if partition.leader != NO_BROKER]
    marks = await replica_ranges(cluster, _brokers(led), led)
    after = await _partitions(cluster, {where.topic for where in before}, before)
    kept = [(broker, where) for where, partition in after.items() for broker in partition.replicas]
    found = await replica_ranges(cluster, _brokers(kept), kept)
    sizes = await _sizes(cluster, _brokers(key for key in kept if not found[key].error))
    compacted = {name: await _is_compacted(cluster, name) for name in {where.topic for where in after}}
    replicas, leaderless = [], []
    for where, partition in after.items():
        mark = marks.get((before[where].leader, where))
        if mark is None or mark.error or partition.leader == NO_BROKER:
            leaderless.append(where)
            continue
        for broker in partition.replicas:
            key = (broker, where)
            role = _role(partition, broker)
            replicas.append(_replica(key, role, found[key], mark, sizes.get(key), compacted[where.topic]))
    return Plan(replicas, leaderless)


def splits_of(replicas: Iterable[Replica]) -> list[Split]:
    """Ranges of about equal size, by offsets, since nobody knows where the bytes are."""
    splits = []
    for replica in replicas:
        if replica.unreachable or replica.start >= replica.bound:
            continue
        size = replica.size or 1
        count = -(-size // SPLIT_BYTES)
        step = -(-(replica.bound - replica.start) // count)
        for start in range(replica.start, replica.bound, step):
            end = min(start + step, replica.bound)
            splits.append(
                Split(
                    replica.topic, replica.partition, replica.broker, start, end, replica.bound,
                    replica.compacted, start == replica.start, size // count,
                )
            )  # fmt: skip
    return splits


def tasks_of(splits: Sequence[Split], parallelism: int) -> list[list[Split]]:
    """Splits that one task reads one after the other: small ones together, as many tasks as can run at least."""
    total = sum(split.size for split in splits)
    count = min(len(splits), max(TASKS_PER_SLOT * parallelism, -(-total // SPLIT_BYTES)))
    tasks: list[list[Split]] = [[] for _ in range(count)]
    loads = [(0, number) for number in range(count)]
    for split in sorted(splits, key=lambda split: -split.size):
        load, number = loads[0]
        tasks[number].append(split)
        heapreplace(loads, (load + split.size, number))
    return tasks


def _replica(
    key: Key, role: Role, found: ReplicaRange, mark: ReplicaRange, size: int | None, compacted: bool
) -> Replica:
    broker, where = key
    bound = mark.high_watermark
    if role is Role.LAGGING:
        bound = min(bound, found.high_watermark)
    unreachable = found.reason if found.error else ""
    start = NO_OFFSET if found.error else found.start
    return Replica(*where, broker, role, start, bound, size, compacted, unreachable)


def _role(partition: Partition, broker: int) -> Role:
    if broker == partition.leader:
        return Role.LEADER
    return Role.IN_SYNC if broker in partition.in_sync_replicas else Role.LAGGING


async def _partitions(
    cluster: Cluster, topics: Collection[str] | None, only: Collection[TopicPartition] | None
) -> dict[TopicPartition, Partition]:
    """Partitions as their leaders see them now, of those topics that are there."""
    views = await _views(cluster)
    names = {name for view in views.values() for name in view.topics if topics is None or name in topics}
    found = {}
    for name in sorted(names):
        seen = [view.topics[name] for view in views.values() if name in view.topics]
        for index in sorted({index for topic in seen for index in topic.partitions}):
            where = TopicPartition(name, index)
            if only is None or where in only:
                found[where] = _as_its_leader_sees(views, where)
    return found


def _as_its_leader_sees(views: Mapping[int, ClusterMetadata], where: TopicPartition) -> Partition:
    """The newest epoch that anybody knows of says who leads; the leader says the rest, if it can be asked."""
    name, index = where
    seen = {
        broker: view.topics[name].partitions[index]
        for broker, view in views.items()
        if name in view.topics and index in view.topics[name].partitions
    }
    newest = max(seen.values(), key=lambda partition: partition.leader_epoch)
    return seen.get(newest.leader, newest)


async def _views(cluster: Cluster) -> dict[int, ClusterMetadata]:
    """What each broker that answers believes."""
    cluster.expire()
    known = await cluster.retrying(cluster.metadata)

    async def ask(broker: int) -> ClusterMetadata | None:
        try:
            connection = await cluster.broker(broker)
            return ClusterMetadata(await connection.call(MetadataRequest(topics=None), MetadataResponse))
        except ApiError:
            return None

    views = await asyncio.gather(*map(ask, known.brokers))
    return {broker: view for broker, view in zip(known.brokers, views, strict=True) if view is not None}


def _brokers(keys: Iterable[Key]) -> list[int]:
    return sorted({broker for broker, _ in keys})


async def _sizes(cluster: Cluster, brokers: Iterable[int]) -> dict[Key, int]:
    """Bytes of every replica, of the brokers that tell."""
    sizes = {}
    for broker in brokers:
        try:
            directories = await Admin(cluster).describe_log_dirs(broker)
        except ApiError:
            continue  # its replicas are read in one piece each
        for directory in directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    where = TopicPartition(topic.name, partition.partition_index)
                    sizes[broker, where] = partition.partition_size
    return sizes


async def _is_compacted(cluster: Cluster, topic: str) -> bool:
    entries = await describe_configs(cluster, Resource(ResourceType.TOPIC, topic))
    return any(entry.name == "cleanup.policy" and "compact" in (entry.value or "") for entry in entries)
