"""Image → the records of a snapshot, in an order that replays: features, brokers, topics, settings, producer ids."""

from hightide.metadata.image import Image
from hightide.types import NO_BROKER
from hightide.wire.message import LogRecord
from hightide.wire.messages.metadata_log import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord, TopicRecord


def snapshot_records(image: Image) -> list[LogRecord]:
    """The records that give `image` when they are replayed on an empty one; the same image gives the same bytes."""
    records: list[LogRecord] = []
    for name, level in sorted(image.features.items()):
        records.append(FeatureLevelRecord(name=name, feature_level=level))
    records.extend(broker.to_record() for _, broker in sorted(image.brokers.items()))
    for topic in sorted(image.topics.values()):
        records.append(TopicRecord(name=topic.name, topic_id=topic.topic_id))
        records.extend(p.to_record(topic.topic_id, number) for number, p in enumerate(topic.partitions))
    for resource, settings in sorted(image.configs.items(), key=lambda item: item[0]):
        for name, value in sorted(settings.items()):
            records.append(
                ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
            )
    if image.next_producer_id:
        records.append(ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=image.next_producer_id))
    return records
