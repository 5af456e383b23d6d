"""The image: everything the cluster agreed on up to one offset of the metadata log. Immutable.

One committed batch makes one new image, and a `Delta` that names what changed. Only what a batch touches is copied:
a topic with its tuple of partitions, one bucket of each map, the small dictionaries of brokers and features.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from hightide.metadata.entities import Broker, Partition, Replica, ReplicaKey, Resource, ResourceType, Topic
from hightide.metadata.frozen_map import FrozenMap
from hightide.metadata.index import Index
from hightide.types import NO_EPOCH, NO_OFFSET, PartitionKey
from hightide.wire.message import LogRecord

NO_SETTINGS: Mapping[str, str] = {}


class Delta(NamedTuple):
    """What one batch changed. `partitions` holds new and changed ones, also those of created topics.

    `possible_losses` are partitions whose new leader may miss acknowledged records: for people to know (R7).
    """

    topics_created: tuple[Topic, ...] = ()
    topics_deleted: tuple[Topic, ...] = ()
    partitions: tuple[PartitionKey, ...] = ()
    resources: tuple[Resource, ...] = ()
    brokers: tuple[int, ...] = ()
    features: bool = False
    producer_ids: bool = False
    possible_losses: tuple[PartitionKey, ...] = ()


class Image:
    """Topics by id and by name, brokers, settings, features, the next producer id, and the indexes over them."""

    __slots__ = (
        "brokers",
        "configs",
        "epoch",
        "features",
        "index",
        "next_producer_id",
        "offset",
        "topic_ids",
        "topics",
    )

    def __init__(self) -> None:
        self.offset = NO_OFFSET
        self.epoch = NO_EPOCH
        self.brokers: Mapping[int, Broker] = {}
        self.topics: FrozenMap[bytes, Topic] = FrozenMap()
        self.topic_ids: FrozenMap[str, bytes] = FrozenMap()
        self.configs: FrozenMap[Resource, Mapping[str, str]] = FrozenMap()
        self.features: Mapping[str, int] = {}
        self.next_producer_id = 0
        self.index = Index()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and all(getattr(self, n) == getattr(other, n) for n in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"Image(offset={self.offset}, epoch={self.epoch}, {len(self.topics)} topics, {len(self.brokers)} brokers)"
        )

    def topic_named(self, name: str) -> Topic | None:
        """A topic by name."""
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: bytes, partition: int) -> Partition | None:
        """A partition by its identity, in O(1)."""
        topic = self.topics.get(topic_id)
        if topic is None or not 0 <= partition < len(topic.partitions):
            return None
        return topic.partitions[partition]

    def replica(self, key: ReplicaKey) -> Replica | None:
        """A replica by broker and partition, in O(1); None where that broker has none."""
        broker_id, topic_id, number = key
        if PartitionKey(topic_id, number) not in self.index.hosted_by(broker_id):
            return None
        partition = self.topics[topic_id].partitions[number]
        return Replica(key, partition.leader == broker_id, broker_id in partition.in_sync_replicas)

    def live_brokers(self) -> list[Broker]:
        """The brokers that may take a role, by id."""
        return [broker for _, broker in sorted(self.brokers.items()) if broker.live]

    def settings_of(self, kind: ResourceType, name: str) -> Mapping[str, str]:
        """What was set for a resource."""
        return self.configs.get(Resource(kind, name), NO_SETTINGS)

    def apply(self, records: Iterable[LogRecord], offset: int, epoch: int) -> tuple["Image", Delta]:
        """The image after one batch whose last record is at `offset`; MetadataError when a record cannot be."""
        from hightide.metadata.replay import Draft

        draft = Draft(self)
        for record in records:
            draft.replay(record)
        return draft.finish(offset, epoch)

    def to_records(self) -> list[LogRecord]:
        """The records of a snapshot: replayed on an empty image they give this one."""
        from hightide.metadata.snapshot import snapshot_records

        return list(snapshot_records(self))
