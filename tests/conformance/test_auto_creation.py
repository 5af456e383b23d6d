"""Topics that come into being because a client named them."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from tests.conformance.clients.message import Client, Message
from tests.conformance.clients.parametrize import every_client
from tests.conformance.cluster import Cluster, new_name


@every_client
def test_producing_creates_the_topic(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = new_name()
    assert client.produce(topic, [Message(b"first")])[0].error == 0
    assert readers[0].consume(topic, 1)[0].value == b"first"


def test_metadata_creates_only_when_allowed(cluster: Cluster) -> None:
    topic = new_name()
    assert cluster.metadata(topic).topics[0].error_code == ErrorCode.unknown_topic_or_partition
    assert cluster.metadata(topic).topics[0].error_code == ErrorCode.unknown_topic_or_partition
    created = cluster.metadata(topic, auto_create=True).topics[0]
    # The first answer may say "not yet"; the topic exists all the same a moment later.
    assert created.error_code in (
        ErrorCode.none,
        ErrorCode.leader_not_available,
        ErrorCode.unknown_topic_or_partition,
    )
    cluster.wait_for_leaders(topic)
    described = cluster.describe_topic(topic)
    assert described.error_code == ErrorCode.none
    assert described.topic_id is not None


def test_old_versions_of_metadata_always_create(cluster: Cluster) -> None:
    topic = new_name()
    cluster.ask("metadata", 1, topics=[{"name": topic}])
    cluster.wait_for_leaders(topic)
    assert cluster.describe_topic(topic).error_code == ErrorCode.none


def test_a_bad_name_is_not_created(cluster: Cluster) -> None:
    answer = cluster.metadata("not a name", auto_create=True).topics[0]
    assert answer.error_code == ErrorCode.invalid_topic_exception
    assert answer.name == "not a name"


def test_all_topics_and_none(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    for version in range(1, 14):
        fields = {
            "allow_auto_topic_creation": False,
            "include_cluster_authorized_operations": False,
            "include_topic_authorized_operations": False,
        }
        everything = cluster.ask("metadata", version, topics=None, **fields)
        assert topic in {described.name for described in everything.topics}
        assert cluster.ask("metadata", version, topics=[], **fields).topics == ()
    assert topic in {described.name for described in cluster.ask("metadata", 0, topics=[]).topics}


def test_metadata_by_topic_id(cluster: Cluster) -> None:
    topic = cluster.create_topic()
    topic_id = cluster.describe_topic(topic).topic_id
    fields = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": False}
    found = cluster.ask("metadata", 12, topics=[{"name": None, "topic_id": topic_id}], **fields).topics[0]
    assert (found.name, found.error_code) == (topic, ErrorCode.none)
    cluster.ask("delete_topics", 4, topic_names=[topic], timeout=5000)
    gone = cluster.ask("metadata", 12, topics=[{"name": None, "topic_id": topic_id}], **fields).topics[0]
    assert gone.error_code == ErrorCode.unknown_topic_id
