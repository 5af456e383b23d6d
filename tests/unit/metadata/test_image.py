"""The image: what records do to it, what a batch is told to have changed, what cannot be."""

from collections.abc import Sequence

import pytest

from hightide.metadata.entities import (
    Replica,
    ReplicaKey,
    Resource,
    ResourceType,
    partition_cluster_id,
)
from hightide.metadata.image import Image
from hightide.metadata.replay import MetadataError
from hightide.types import PartitionKey
from hightide.wire.message import LogRecord
from hightide.wire.messages.delete_topics import DeleteTopicsRequest
from hightide.wire.messages.metadata_log import (
    AbortTransactionRecord,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.metadata_quorum import Quorum

ID = b"topic" + bytes(10) + b"\x01"


def partition_record(number: int = 0) -> PartitionRecord:
    return PartitionRecord(topic_id=ID, partition_id=number, replicas=[1], isr=[1], leader=1, leader_epoch=0)


@pytest.mark.covers("C2")
def test_partition_ids_count_from_zero_and_go_on() -> None:
    image, _ = Image().apply([TopicRecord(name="t", topic_id=ID), partition_record(0), partition_record(1)], 2, 1)
    image, delta = image.apply([partition_record(2)], 3, 1)
    assert len(image.topics[ID].partitions) == 3
    assert delta.partitions == (PartitionKey(ID, 2),)
    with pytest.raises(MetadataError, match="does not follow"):
        image.apply([partition_record(4)], 4, 1)


@pytest.mark.covers("C3")
def test_a_partition_clusters_id_is_predictable_and_128_bits_wide() -> None:
    assert partition_cluster_id(bytes(16), 0) == "lYMAD7RUgCnFAtlFXXKkmQ"
    ids = {partition_cluster_id(bytes([topic]) * 16, number) for topic in range(100) for number in range(100)}
    assert len(ids) == 10_000


@pytest.mark.covers("C4", "C5")
def test_replicas_are_found_by_broker_by_partition_and_by_both() -> None:
    quorum = Quorum()
    quorum.start(1, 2, 3)
    quorum.create("t", 3, 2)
    topic = quorum.topic("t")
    image = quorum.image
    assert [key.partition for key in image.index.hosted_by(1)] == [0, 2]
    assert [key.partition for key in image.index.led_by(1)] == [0]
    assert len(image.index.hosted_by(2)) == 2
    key = ReplicaKey(2, topic.topic_id, 0)
    assert image.replica(key) == Replica(key, is_leader=False, in_sync=True)
    assert image.replica(ReplicaKey(1, topic.topic_id, 0)) == Replica(ReplicaKey(1, topic.topic_id, 0), True, True)
    assert image.replica(ReplicaKey(3, topic.topic_id, 0)) is None
    assert image.replica(ReplicaKey(1, bytes(16), 0)) is None
    assert image.partition(topic.topic_id, 0) == topic.partitions[0]
    assert image.partition(topic.topic_id, 3) is None
    assert image.partition(topic.topic_id, -1) is None


def test_an_image_stays_what_it_was() -> None:
    quorum = Quorum()
    quorum.start(1)
    before = quorum.image
    quorum.create("t", 2)
    assert before.topic_named("t") is None
    assert before.index.partition_count == 0
    assert before.offset < quorum.image.offset


def test_a_delta_names_what_changed() -> None:
    quorum = Quorum()
    quorum.start(1)
    assert quorum.delta.brokers == (1,)
    quorum.create("t", 2, configs={"retention.ms": "5"})
    delta = quorum.delta
    assert [topic.name for topic in delta.topics_created] == ["t"]
    assert [key.partition for key in delta.partitions] == [0, 1]
    assert delta.resources == (Resource(ResourceType.TOPIC, "t"),)
    quorum.commit(quorum.controller.delete_topics(DeleteTopicsRequest(topic_names=["t"]), 1))
    delta = quorum.delta
    assert [topic.name for topic in delta.topics_deleted] == ["t"]
    assert delta.partitions == ()
    assert quorum.image.settings_of(ResourceType.TOPIC, "t") == {}


def test_a_topic_is_made_again_under_its_name_in_one_batch() -> None:
    other = ID[:-1] + b"\x02"
    image, _ = Image().apply([TopicRecord(name="t", topic_id=ID), partition_record()], 1, 1)
    image, delta = image.apply([RemoveTopicRecord(topic_id=ID), TopicRecord(name="t", topic_id=other)], 3, 1)
    assert image.topic_ids["t"] == other
    assert ID not in image.topics
    assert [topic.topic_id for topic in delta.topics_deleted] == [ID]
    assert [topic.topic_id for topic in delta.topics_created] == [other]


def test_a_topic_that_comes_and_goes_in_one_batch_leaves_no_trace() -> None:
    image, delta = Image().apply(
        [TopicRecord(name="t", topic_id=ID), partition_record(), RemoveTopicRecord(topic_id=ID)], 2, 1
    )
    assert (delta.topics_created, delta.topics_deleted, delta.partitions) == ((), (), ())
    assert len(image.topics) == len(image.topic_ids) == image.index.partition_count == 0


def test_brokers_are_fenced_unfenced_and_forgotten() -> None:
    image, _ = Image().apply([RegisterBrokerRecord(broker_id=1, broker_epoch=9, log_dirs=[ID])], 0, 1)
    assert not image.brokers[1].live
    image, _ = image.apply([UnfenceBrokerRecord(id=1, epoch=9)], 1, 1)
    assert [broker.broker_id for broker in image.live_brokers()] == [1]
    image, _ = image.apply(
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=9, in_controlled_shutdown=1)], 2, 1
    )
    assert image.live_brokers() == []
    assert image.brokers[1].directories == (ID,)
    image, _ = image.apply([FenceBrokerRecord(id=1, epoch=9)], 3, 1)
    image, delta = image.apply([UnregisterBrokerRecord(broker_id=1, broker_epoch=9)], 4, 1)
    assert image.brokers == {}
    assert delta.brokers == (1,)


def test_features_producer_ids_and_empty_records() -> None:
    records = [FeatureLevelRecord(name="f", feature_level=2), ProducerIdsRecord(next_producer_id=1000), NoOpRecord()]
    image, delta = Image().apply(records, 2, 4)
    assert (image.features, image.next_producer_id, image.offset, image.epoch) == ({"f": 2}, 1000, 2, 4)
    assert (delta.features, delta.producer_ids) == (True, True)
    image, delta = image.apply([FeatureLevelRecord(name="f", feature_level=0)], 3, 4)
    assert (image.features, delta.producer_ids) == ({}, False)


BROKER = RegisterBrokerRecord(broker_id=1, broker_epoch=9)
TOPIC = TopicRecord(name="t", topic_id=ID)


@pytest.mark.parametrize(
    "records",
    [
        [TOPIC, TopicRecord(name="t", topic_id=ID[:-1] + b"\x02")],
        [TOPIC, TopicRecord(name="u", topic_id=ID)],
        [TOPIC, RemoveTopicRecord(topic_id=ID), TOPIC],
        [RemoveTopicRecord(topic_id=ID)],
        [partition_record()],
        [TOPIC, PartitionChangeRecord(topic_id=ID, partition_id=0)],
        [BROKER, FenceBrokerRecord(id=1, epoch=8)],
        [UnfenceBrokerRecord(id=1, epoch=9)],
        [ProducerIdsRecord(next_producer_id=0)],
        [ConfigRecord(resource_type=99, resource_name="x", name="n", value="v")],
        [AbortTransactionRecord()],
    ],
    ids=lambda records: type(records[-1]).__name__,
)
def test_a_record_that_does_not_fit_stops_the_replay(records: Sequence[LogRecord]) -> None:
    with pytest.raises(MetadataError):
        Image().apply(records, 0, 1)


def test_an_image_prints_itself_briefly() -> None:
    assert repr(Image()) == "Image(offset=-1, epoch=-1, 0 topics, 0 brokers)"
