"""Image → the records of a snapshot, and back: in pieces, because neither may hold up a node with many topics.

The order replays: features, brokers, topics, settings, producer ids.
"""

from collections.abc import Iterable, Iterator

from hightide.limits import SNAPSHOT_BATCH_BYTES, SNAPSHOT_BATCH_RECORDS
from hightide.metadata.image import Image
from hightide.metadata.records import decode_record, encode_record
from hightide.types import NO_BROKER, NO_EPOCH, NO_OFFSET
from hightide.wire.message import LogRecord
from hightide.wire.messages.metadata_log import ConfigRecord, FeatureLevelRecord, ProducerIdsRecord, TopicRecord


def snapshot_records(image: Image) -> Iterator[LogRecord]:
    """The records that give `image` when they are replayed on an empty one; the same image gives the same bytes."""
    for name, level in sorted(image.features.items()):
        yield FeatureLevelRecord(name=name, feature_level=level)
    for _, broker in sorted(image.brokers.items()):
        yield broker.to_record()
    for topic_id, topic in image.topics.in_order():
        yield TopicRecord(name=topic.name, topic_id=topic_id)
        for number, partition in enumerate(topic.partitions):
            yield partition.to_record(topic_id, number)
    for resource, settings in image.configs.in_order():
        for name, value in sorted(settings.items()):
            yield ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    if image.next_producer_id:
        yield ProducerIdsRecord(broker_id=NO_BROKER, next_producer_id=image.next_producer_id)


def snapshot_batches(image: Image) -> Iterator[list[bytes]]:
    """The same as encoded values, in pieces of which each is a short step."""
    values: list[bytes] = []
    size = 0
    for record in snapshot_records(image):
        value = encode_record(record)
        values.append(value)
        size += len(value)
        if len(values) >= SNAPSHOT_BATCH_RECORDS or size >= SNAPSHOT_BATCH_BYTES:
            yield values
            values, size = [], 0
    if values:
        yield values


class SnapshotImage:
    """An image in the making, from the values of a snapshot, piece by piece.

    ProtocolError or MetadataError for values that are no snapshot's.
    """

    def __init__(self) -> None:
        self._image = Image()

    def add(self, values: Iterable[bytes]) -> None:
        """The next piece."""
        self._image, _ = self._image.apply(map(decode_record, values), NO_OFFSET, NO_EPOCH)

    def finish(self, end: int, epoch: int) -> Image:
        """The image that the snapshot of everything below `end` stands for."""
        image, _ = self._image.apply((), end - 1, epoch)
        return image
