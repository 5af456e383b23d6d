"""ListConfigResources (74), versions 0-1: what has settings of its own.

Version 0 lists client metrics subscriptions only, of which there are none here; version 1 lists topics and brokers too,
by type, all of them when no type is named.
"""

from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.metadata.entities import ResourceType
from hightide.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

BROKER_LOGGER, CLIENT_METRICS, GROUP = 8, 16, 32
KNOWN = {ResourceType.TOPIC, ResourceType.BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP}


def handle(node: "Node", message: ListConfigResourcesRequest, request: "Request") -> ListConfigResourcesResponse:
    """Topics and brokers, as far as they are asked for."""
    wanted = {CLIENT_METRICS} if request.version == 0 else set(message.resource_types) or KNOWN
    if not wanted <= KNOWN:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    found: list[ConfigResource] = []
    if ResourceType.TOPIC in wanted:
        names = sorted(topic.name for topic in node.image.topics.values())
        found += [ConfigResource(resource_name=name, resource_type=ResourceType.TOPIC) for name in names]
    if ResourceType.BROKER in wanted:
        ids = sorted(node.image.brokers)
        found += [ConfigResource(resource_name=str(broker), resource_type=ResourceType.BROKER) for broker in ids]
    return ListConfigResourcesResponse(config_resources=found)
