"""Records → the next image. All transitions of the image are here, one method per record type.

The draft lives for one batch: it copies what the batch touches and shares everything else with the image before.
A record that does not fit the image stops the replay: metadata is never guessed.
"""

from collections.abc import Callable
from typing import Any, Final

from hightide.metadata.entities import Broker, Partition, Resource, ResourceType, Topic
from hightide.metadata.image import Delta, Image
from hightide.metadata.index import PartitionChange
from hightide.types import PartitionKey, format_uuid
from hightide.wire.message import LogRecord
from hightide.wire.messages import metadata_log as log


class MetadataError(Exception):
    """A metadata record that cannot follow on the records before it."""


class Draft:
    """The image while a batch is replayed."""

    def __init__(self, image: Image) -> None:
        self._image = image
        self._brokers = dict(image.brokers)
        self._features = dict(image.features)
        self._next_producer_id = image.next_producer_id
        self._topics: dict[bytes, Topic | None] = {}
        self._topic_ids: dict[str, bytes | None] = {}
        self._partitions: dict[bytes, list[Partition]] = {}
        self._touched: dict[PartitionKey, None] = {}
        self._configs: dict[Resource, dict[str, str] | None] = {}
        self._brokers_touched: dict[int, None] = {}
        self._losses: list[PartitionKey] = []

    def replay(self, record: LogRecord) -> None:
        """Takes one record in."""
        replay = _REPLAY.get(record.record_type)
        if replay is None:
            raise MetadataError(f"{type(record).__name__} is not a record that this version can replay")
        replay(self, record)

    def finish(self, offset: int, epoch: int) -> tuple[Image, Delta]:
        """The image after the batch, and what it changed."""
        before = self._image
        for topic_id, partitions in self._partitions.items():
            topic = self._topic(topic_id)
            if topic is not None:
                self._topics[topic_id] = topic._replace(partitions=tuple(partitions))
        created = tuple(t for t in self._topics.values() if t is not None and t.topic_id not in before.topics)
        deleted = tuple(before.topics[i] for i, t in self._topics.items() if t is None and i in before.topics)
        changes = self._changes(deleted)
        image = Image()
        image.offset, image.epoch = offset, epoch
        image.brokers, image.features = self._brokers, self._features
        image.next_producer_id = self._next_producer_id
        image.topics = before.topics.changed(self._topics)
        image.topic_ids = before.topic_ids.changed(self._topic_ids)
        image.configs = before.configs.changed(self._configs)
        image.index = before.index.changed(changes, created, deleted) if changes or created or deleted else before.index
        return image, Delta(
            created,
            deleted,
            tuple(change.key for change in changes if change.after is not None),
            tuple(self._configs),
            tuple(self._brokers_touched),
            self._features != before.features,
            self._next_producer_id != before.next_producer_id,
            tuple(self._losses),
        )

    def _changes(self, deleted: tuple[Topic, ...]) -> list[PartitionChange]:
        changes = [
            PartitionChange(PartitionKey(topic.topic_id, number), partition, None)
            for topic in deleted
            for number, partition in enumerate(topic.partitions)
        ]
        for key in self._touched:
            topic = self._topic(key.topic_id)
            if topic is not None:
                before = self._image.partition(*key)
                changes.append(PartitionChange(key, before, topic.partitions[key.partition]))
        return changes

    def _topic(self, topic_id: bytes) -> Topic | None:
        return self._topics[topic_id] if topic_id in self._topics else self._image.topics.get(topic_id)

    def _topic_id(self, name: str) -> bytes | None:
        return self._topic_ids[name] if name in self._topic_ids else self._image.topic_ids.get(name)

    def _partitions_of(self, topic_id: bytes, record: LogRecord) -> list[Partition]:
        topic = self._topic(topic_id)
        if topic is None:
            raise MetadataError(f"{type(record).__name__}: there is no topic {format_uuid(topic_id)}")
        return self._partitions.setdefault(topic_id, list(topic.partitions))

    def _broker(self, broker_id: int, epoch: int, record: LogRecord) -> Broker:
        broker = self._brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            raise MetadataError(f"{type(record).__name__}: broker {broker_id} is not registered with epoch {epoch}")
        return broker

    def _put(self, broker: Broker) -> None:
        self._brokers[broker.broker_id] = broker
        self._brokers_touched[broker.broker_id] = None

    def _topic_record(self, record: log.TopicRecord) -> None:
        known = record.topic_id in self._topics or record.topic_id in self._image.topics  # ids are never used again
        if known or self._topic_id(record.name) is not None:
            raise MetadataError(f"TopicRecord: topic {record.name} or id {format_uuid(record.topic_id)} exists already")
        self._topics[record.topic_id] = Topic(record.name, record.topic_id)
        self._topic_ids[record.name] = record.topic_id

    def _remove_topic(self, record: log.RemoveTopicRecord) -> None:
        topic = self._topic(record.topic_id)
        if topic is None:
            raise MetadataError(f"RemoveTopicRecord: there is no topic {format_uuid(record.topic_id)}")
        self._topics[record.topic_id] = None
        self._topic_ids[topic.name] = None
        self._partitions.pop(record.topic_id, None)
        resource = Resource(ResourceType.TOPIC, topic.name)
        if resource in self._configs or resource in self._image.configs:
            self._configs[resource] = None

    def _partition(self, record: log.PartitionRecord) -> None:
        partitions = self._partitions_of(record.topic_id, record)
        number = record.partition_id
        if not 0 <= number <= len(partitions):
            raise MetadataError(f"PartitionRecord: partition {number} does not follow on {len(partitions)} partitions")
        partitions[number : number + 1] = [Partition.from_record(record)]
        self._touched[PartitionKey(record.topic_id, number)] = None

    def _partition_change(self, record: log.PartitionChangeRecord) -> None:
        partitions = self._partitions_of(record.topic_id, record)
        number = record.partition_id
        if not 0 <= number < len(partitions):
            raise MetadataError(f"PartitionChangeRecord: there is no partition {number}")
        partitions[number] = partitions[number].merged(record)
        self._touched[PartitionKey(record.topic_id, number)] = None

    def _config(self, record: log.ConfigRecord) -> None:
        try:
            resource = Resource(ResourceType(record.resource_type), record.resource_name)
        except ValueError:
            raise MetadataError(f"ConfigRecord: resource type {record.resource_type} has no settings here") from None
        known = self._configs[resource] if resource in self._configs else self._image.configs.get(resource)
        settings = dict(known or {})
        if record.value is None:
            settings.pop(record.name, None)
        else:
            settings[record.name] = record.value
        self._configs[resource] = settings or None

    def _register_broker(self, record: log.RegisterBrokerRecord) -> None:
        self._put(Broker.from_record(record))

    def _unregister_broker(self, record: log.UnregisterBrokerRecord) -> None:
        self._broker(record.broker_id, record.broker_epoch, record)
        del self._brokers[record.broker_id]
        self._brokers_touched[record.broker_id] = None

    def _fence_broker(self, record: log.FenceBrokerRecord) -> None:
        self._put(self._broker(record.id, record.epoch, record)._replace(fenced=True))

    def _unfence_broker(self, record: log.UnfenceBrokerRecord) -> None:
        broker = self._broker(record.id, record.epoch, record)
        self._put(broker._replace(fenced=False, unfenced_epoch=broker.epoch))

    def _registration_change(self, record: log.BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id, record.broker_epoch, record)
        self._put(
            broker._replace(
                fenced=broker.fenced if not record.fenced else record.fenced > 0,
                unfenced_epoch=broker.epoch if record.fenced < 0 else broker.unfenced_epoch,
                in_controlled_shutdown=broker.in_controlled_shutdown or record.in_controlled_shutdown > 0,
                directories=tuple(record.log_dirs) or broker.directories,
            )
        )

    def _producer_ids(self, record: log.ProducerIdsRecord) -> None:
        if record.next_producer_id <= self._next_producer_id:
            raise MetadataError(f"ProducerIdsRecord: {record.next_producer_id} hands out producer ids again")
        self._next_producer_id = record.next_producer_id

    def _feature_level(self, record: log.FeatureLevelRecord) -> None:
        if record.feature_level:
            self._features[record.name] = record.feature_level
        else:
            self._features.pop(record.name, None)

    def _possible_loss(self, record: log.PossibleLossRecord) -> None:
        self._losses.append(PartitionKey(record.topic_id, record.partition_id))

    def _nothing(self, record: log.NoOpRecord) -> None:
        """A record that only shows that the log moves."""


_REPLAY: Final[dict[int, Callable[[Draft, Any], None]]] = {
    log.TopicRecord.record_type: Draft._topic_record,
    log.RemoveTopicRecord.record_type: Draft._remove_topic,
    log.PartitionRecord.record_type: Draft._partition,
    log.PartitionChangeRecord.record_type: Draft._partition_change,
    log.ConfigRecord.record_type: Draft._config,
    log.RegisterBrokerRecord.record_type: Draft._register_broker,
    log.UnregisterBrokerRecord.record_type: Draft._unregister_broker,
    log.FenceBrokerRecord.record_type: Draft._fence_broker,
    log.UnfenceBrokerRecord.record_type: Draft._unfence_broker,
    log.BrokerRegistrationChangeRecord.record_type: Draft._registration_change,
    log.ProducerIdsRecord.record_type: Draft._producer_ids,
    log.FeatureLevelRecord.record_type: Draft._feature_level,
    log.PossibleLossRecord.record_type: Draft._possible_loss,
    log.NoOpRecord.record_type: Draft._nothing,
}
