"""What the cluster knows about topics, gathered from several answers into documents that every output form prints."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import TypedDict

from hightide.client.admin import Admin
from hightide.client.cluster import Cluster
from hightide.client.configs import ConfigEntry, ConfigSource, Resource, ResourceType, describe_configs
from hightide.client.metadata import Partition, Topic
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.errors import ApiError
from hightide.types import TopicPartition, format_uuid, partition_cluster_id


class PartitionFacts(TypedDict):
    """One partition; what nobody could tell is None."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    in_sync_replicas: list[int]
    offline_replicas: list[int]
    start: int | None
    high_watermark: int | None
    bytes: int | None
    partition_cluster_id: str


class TopicFacts(TypedDict):
    """One topic with its own settings."""

    name: str
    id: str
    internal: bool
    replication_factor: int
    settings: dict[str, str | None]
    partitions: list[PartitionFacts]


async def gather(cluster: Cluster, topics: Sequence[Topic]) -> list[TopicFacts]:
    """Everything about these topics; offsets and sizes are None where no leader or no answer is."""
    led = [
        TopicPartition(topic.name, partition.number)
        for topic in topics
        for partition in topic.partitions.values()
        if partition.leader >= 0
    ]
    starts, ends, sizes = await asyncio.gather(
        _offsets(cluster, led, EARLIEST), _offsets(cluster, led, LATEST), _sizes(cluster, topics)
    )
    own = await asyncio.gather(*(_own_settings(cluster, topic.name) for topic in topics))
    return [
        TopicFacts(
            name=topic.name,
            id=format_uuid(topic.id),
            internal=topic.internal,
            replication_factor=replication_factor(topic),
            settings={entry.name: entry.value for entry in entries},
            partitions=[_partition(topic, partition, starts, ends, sizes) for partition in topic.partitions.values()],
        )
        for topic, entries in zip(topics, own, strict=True)
    ]


def replication_factor(topic: Topic) -> int:
    """Replicas of the partition that has most."""
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _partition(
    topic: Topic,
    partition: Partition,
    starts: dict[TopicPartition, int],
    ends: dict[TopicPartition, int],
    sizes: dict[tuple[int, TopicPartition], int],
) -> PartitionFacts:
    where = TopicPartition(topic.name, partition.number)
    return PartitionFacts(
        partition=partition.number,
        leader=partition.leader if partition.leader >= 0 else None,
        leader_epoch=partition.leader_epoch,
        replicas=partition.replicas,
        in_sync_replicas=partition.in_sync_replicas,
        offline_replicas=partition.offline_replicas,
        start=starts.get(where),
        high_watermark=ends.get(where),
        bytes=sizes.get((partition.leader, where)),
        partition_cluster_id=format_uuid(partition_cluster_id(topic.id, partition.number)),
    )


async def _offsets(cluster: Cluster, partitions: Iterable[TopicPartition], point: int) -> dict[TopicPartition, int]:
    try:
        found = await list_offsets(cluster, dict.fromkeys(partitions, point))
    except ApiError:
        return {}
    return {where: answer.offset for where, answer in found.items()}


async def _sizes(cluster: Cluster, topics: Sequence[Topic]) -> dict[tuple[int, TopicPartition], int]:
    leaders = {partition.leader for topic in topics for partition in topic.partitions.values()}
    answers = await asyncio.gather(*(_sizes_at(cluster, leader) for leader in leaders if leader >= 0))
    return {place: size for answer in answers for place, size in answer.items()}


async def _sizes_at(cluster: Cluster, broker: int) -> dict[tuple[int, TopicPartition], int]:
    try:
        directories = await Admin(cluster).describe_log_dirs(broker)
    except ApiError:
        return {}
    return {
        (broker, TopicPartition(topic.name, partition.partition_index)): partition.partition_size
        for directory in directories
        for topic in directory.topics
        for partition in topic.partitions
    }


async def _own_settings(cluster: Cluster, name: str) -> list[ConfigEntry]:
    try:
        entries = await describe_configs(cluster, Resource(ResourceType.TOPIC, name))
    except ApiError:
        return []
    return [entry for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG]
