"""DescribeConfigs (32), versions 1-4: settings of topics and brokers with their sources and synonyms.

A broker is named by its id; an empty name means the dynamic defaults of all brokers. Only the broker itself knows its
static settings, so another broker's id is refused here and clients ask that broker. Unknown setting names are left out.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.settings.described import (
    DescribedSetting,
    describe_broker,
    describe_cluster,
    describe_topic,
)
from hightide.node.resources import BROKER, TOPIC, check_broker_name
from hightide.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: DescribeConfigsRequest, request: "Request") -> DescribeConfigsResponse:
    """One result per resource."""
    return DescribeConfigsResponse(results=[_result(node, message, resource) for resource in message.resources])


def _result(node: "Node", message: DescribeConfigsRequest, resource: DescribeConfigsResource) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        described = _describe(node, resource)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.message
        return result
    result.configs = [_entry(setting, message) for setting in described]
    return result


def _describe(node: "Node", resource: DescribeConfigsResource) -> list[DescribedSetting]:
    names = None if resource.configuration_keys is None else set(resource.configuration_keys)
    if resource.resource_type == TOPIC:
        return describe_topic(node.topic_overrides(resource.resource_name), node.settings, names)
    if resource.resource_type == BROKER:
        if not resource.resource_name:
            return describe_cluster(node.settings, names)
        check_broker_name(resource.resource_name, node.settings.node_id)
        return describe_broker(node.settings, names)
    raise ApiError(ErrorCode.INVALID_REQUEST, f"resources of type {resource.resource_type} have no settings here")


def _entry(setting: DescribedSetting, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    entry = DescribeConfigsResourceResult(
        name=setting.name,
        value=setting.value,
        read_only=setting.read_only,
        config_source=setting.source,
        is_sensitive=setting.is_sensitive,
        config_type=setting.type,
        documentation=setting.documentation if message.include_documentation else None,
    )
    if message.include_synonyms:
        entry.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.text, source=synonym.source)
            for synonym in setting.synonyms
        ]
    return entry
