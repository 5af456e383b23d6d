"""What differs between two images, as a node that loads a snapshot must learn it."""

from hightide.metadata.difference import difference
from hightide.metadata.entities import Resource, ResourceType
from hightide.metadata.image import Delta, Image
from hightide.types import PartitionKey
from hightide.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from hightide.wire.messages.delete_topics import DeleteTopicsRequest
from tests.metadata_quorum import Quorum


def between(before: Image, after: Image) -> Delta:
    """The result, with all its steps."""
    work = difference(before, after)
    while True:
        try:
            next(work)
        except StopIteration as done:
            delta: Delta = done.value
            return delta


def cluster() -> Quorum:
    quorum = Quorum()
    quorum.commit(quorum.controller.bootstrap())
    quorum.start(1, 2, 3)
    quorum.create("a", 2, 3, configs={"retention.ms": "1"})
    quorum.create("b", 1, 3)
    return quorum


def delete(quorum: Quorum, name: str) -> None:
    quorum.commit(quorum.controller.delete_topics(DeleteTopicsRequest(topic_names=[name]), 1))


def test_an_image_does_not_differ_from_itself() -> None:
    image = cluster().image
    assert between(image, image) == Delta()
    assert between(Image(), Image()) == Delta()


def test_everything_is_new_to_an_empty_image() -> None:
    image = cluster().image
    delta = between(Image(), image)
    assert {topic.name for topic in delta.topics_created} == {"a", "b"}
    assert len(delta.partitions) == 3
    assert sorted(delta.brokers) == [1, 2, 3]
    assert Resource(ResourceType.TOPIC, "a") in delta.resources
    assert delta.features
    assert delta.topics_deleted == ()


def test_a_topic_that_was_made_anew_is_deleted_and_created() -> None:
    """Under the same name with another id, and its settings went with it."""
    quorum = cluster()
    before = quorum.image
    old = quorum.topic("a").topic_id
    delete(quorum, "a")
    quorum.create("a", 1, 3)
    delta = between(before, quorum.image)
    assert [topic.topic_id for topic in delta.topics_deleted] == [old]
    assert [topic.topic_id for topic in delta.topics_created] == [quorum.topic("a").topic_id]
    assert delta.partitions == (PartitionKey(quorum.topic("a").topic_id, 0),)
    assert delta.resources == (Resource(ResourceType.TOPIC, "a"),)
    assert delta.brokers == ()


def test_new_and_changed_partitions_are_named_and_no_others() -> None:
    quorum = cluster()
    before = quorum.image
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="b", count=3, assignments=None)])
    quorum.commit(quorum.controller.create_partitions(request))
    b = quorum.topic("b").topic_id
    assert between(before, quorum.image) == Delta(partitions=(PartitionKey(b, 1), PartitionKey(b, 2)))


def test_a_broker_that_is_fenced_takes_its_partitions_along() -> None:
    quorum = cluster()
    before = quorum.image
    quorum.commit(quorum.controller.fence_broker(2))
    delta = between(before, quorum.image)
    assert delta.brokers == (2,)
    assert {key.topic_id for key in delta.partitions} == {quorum.topic("a").topic_id, quorum.topic("b").topic_id}


def test_a_large_image_is_compared_in_many_steps() -> None:
    quorum = Quorum()
    quorum.commit(quorum.controller.bootstrap())
    quorum.start(1)
    for number in range(3):
        quorum.create(f"t{number}", 3000, 1)
    assert len(list(difference(Image(), quorum.image))) >= 4
