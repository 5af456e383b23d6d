"""Metadata (3), versions 0-13: brokers, controller, and topics with their leaders and replicas.

Topics null (or, in version 0, empty) means all; from version 12 on they may be asked for by id. A missing topic is
created when the client and `auto.create.topics.enable` allow it; that request is answered with the error
LEADER_NOT_AVAILABLE, as Kafka does, and the client asks again.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.entities import Broker, Partition, Topic
from hightide.types import NO_BROKER, ZERO_UUID
from hightide.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

UNKNOWN_OPERATIONS = -2147483648
TOPIC_IDS_FROM = 10


def handle(node: "Node", message: MetadataRequest, request: "Request") -> MetadataResponse:
    """What the committed image says."""
    image = node.image
    asked = message.topics
    if asked is None or (request.version == 0 and not asked):
        topics = [_topic(node, topic) for topic in sorted(image.topics.values(), key=lambda topic: topic.name)]
    else:
        topics = [_asked(node, topic, message.allow_auto_topic_creation) for topic in asked]
    return MetadataResponse(
        brokers=[_broker(broker, request) for broker in node.departures.listed(image)],
        cluster_id=node.directory.identity.cluster_id,
        controller_id=node.controller_id,
        topics=topics,
    )


def _broker(broker: Broker, request: "Request") -> MetadataResponseBroker:
    endpoint = broker.endpoint(request.session.listener_name) or broker.endpoints[0]
    return MetadataResponseBroker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)


def _asked(node: "Node", asked: MetadataRequestTopic, may_create: bool) -> MetadataResponseTopic:
    if asked.name is None or asked.topic_id != ZERO_UUID:
        topic = node.image.topics.get(asked.topic_id)
        if topic is None:
            return MetadataResponseTopic(
                error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=asked.name, topic_id=asked.topic_id
            )
        return _topic(node, topic)
    topic = node.image.topic_named(asked.name)
    if topic is not None:
        return _topic(node, topic)
    return MetadataResponseTopic(error_code=_missing(node, asked.name, may_create), name=asked.name)


def _missing(node: "Node", name: str, may_create: bool) -> ErrorCode:
    """Begin to create a missing topic where that is allowed; the error that the client gets meanwhile."""
    if not (may_create and node.settings.auto_create_topics_enable):
        try:
            node.check_topic_name(name)
        except ApiError as error:
            return error.code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        node.auto_create(name)
    except ApiError as error:
        return error.code
    return ErrorCode.LEADER_NOT_AVAILABLE


def _topic(node: "Node", topic: Topic) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name.startswith("__"),
        partitions=[_partition(node, topic, index, partition) for index, partition in enumerate(topic.partitions)],
    )


def _partition(node: "Node", topic: Topic, index: int, partition: Partition) -> MetadataResponsePartition:
    offline = node.offline_replicas(topic, index, partition)
    has_leader = partition.leader != NO_BROKER and partition.leader not in offline
    return MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_BROKER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.in_sync_replicas),
        offline_replicas=offline,
    )
