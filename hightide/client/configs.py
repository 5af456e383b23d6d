"""Settings of topics and brokers as the cluster keeps them: what is set, where it comes from, and how to change it."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.connections import Connection
from hightide.errors import ApiError
from hightide.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from hightide.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """What a setting belongs to."""

    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    """Where a value comes from; Kafka's numbers and names."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class _Operation(IntEnum):
    SET = 0
    DELETE = 1


class ConfigEntry(NamedTuple):
    """One setting. A sensitive one has no value."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool


class Resource(NamedTuple):
    """A topic by name, or a broker by its id as text (empty: the default of all brokers)."""

    type: ResourceType
    name: str


async def describe_configs(cluster: Cluster, resource: Resource) -> list[ConfigEntry]:
    """All settings of a topic or broker, by name."""

    async def attempt() -> list[ConfigEntry]:
        asked = DescribeConfigsResource(
            resource_type=resource.type, resource_name=resource.name, configuration_keys=None
        )
        connection = await _who_answers(cluster, resource)
        response = await connection.call(DescribeConfigsRequest(resources=[asked]), DescribeConfigsResponse)
        result = response.results[0]
        if result.error_code:
            raise ApiError(code_of(result.error_code), result.error_message or "")
        entries = (
            ConfigEntry(each.name, each.value, _source(each.config_source), each.read_only, each.is_sensitive)
            for each in result.configs
        )
        return sorted(entries)

    return await cluster.retrying(attempt)


async def alter_configs(
    cluster: Cluster, resource: Resource, changes: Mapping[str, str | None], *, validate_only: bool = False
) -> None:
    """Set values, or with None go back to the default; all of them or none."""
    configs = [
        AlterableConfig(name=name, config_operation=_Operation.DELETE if value is None else _Operation.SET, value=value)
        for name, value in changes.items()
    ]
    altered = AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=validate_only)

    async def attempt() -> None:
        connection = await _who_answers(cluster, resource)
        response = await connection.call(request, IncrementalAlterConfigsResponse)
        result = response.responses[0]
        if result.error_code:
            raise ApiError(code_of(result.error_code), result.error_message or "")

    await cluster.retrying(attempt)


async def _who_answers(cluster: Cluster, resource: Resource) -> Connection:
    if resource.type is ResourceType.BROKER and resource.name:
        return await cluster.broker(int(resource.name))
    return await cluster.any_broker()


def _source(number: int) -> ConfigSource:
    try:
        return ConfigSource(number)
    except ValueError:
        return ConfigSource.UNKNOWN
