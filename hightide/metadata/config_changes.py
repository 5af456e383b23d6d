"""AlterConfigs and IncrementalAlterConfigs → the new settings of resources, judged as Kafka judges them.

A resource changes as a whole or not at all. Broker settings are refused with INVALID_REQUEST, topic settings with
INVALID_CONFIG: Kafka's codes, which clients know.
"""

from collections.abc import Mapping
from enum import IntEnum

from hightide.errors import ApiError, ErrorCode
from hightide.limits import CONFIG_VALUE_BYTES_MAX
from hightide.metadata.decision import View
from hightide.metadata.entities import CLUSTER_DEFAULT, Resource, ResourceType
from hightide.metadata.settings.broker import BROKER_SETTINGS
from hightide.metadata.settings.broker_values import CLUSTER_ONLY
from hightide.metadata.settings.definition import SettingError, SettingType, split_list
from hightide.metadata.settings.topic import TOPIC_SETTINGS
from hightide.metadata.settings.topic_values import check_topic_settings
from hightide.wire.messages.alter_configs import AlterableConfig as Replacement
from hightide.wire.messages.incremental_alter_configs import AlterableConfig as Operation
from hightide.wire.messages.metadata_log import ConfigRecord

_DECLARED = {ResourceType.TOPIC: TOPIC_SETTINGS, ResourceType.BROKER: BROKER_SETTINGS}


class Operator(IntEnum):
    """What an incremental change does, numbered as on the wire."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


def resource_of(view: View, kind: int, name: str) -> Resource:
    """The resource that a request names; an error when it cannot have settings or does not exist."""
    if kind == ResourceType.TOPIC:
        if not name:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        if name not in view.image.topic_ids:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return Resource(ResourceType.TOPIC, name)
    if kind == ResourceType.BROKER:
        return Resource(ResourceType.BROKER, _broker_name(view, name))
    raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def replaced(current: Mapping[str, str], configs: list[Replacement]) -> dict[str, str | None]:
    """Changes by AlterConfigs: what is not named is removed."""
    _check_names([config.name for config in configs], [config.name for config in configs if config.value is None])
    changes: dict[str, str | None] = dict.fromkeys(current)
    changes.update((config.name, config.value) for config in configs)
    return changes


def altered(resource: Resource, current: Mapping[str, str], operations: list[Operation]) -> dict[str, str | None]:
    """Changes by IncrementalAlterConfigs: what is not named stays."""
    empty = [o.name for o in operations if o.value is None and o.config_operation != Operator.DELETE]
    _check_names([operation.name for operation in operations], empty)
    return {operation.name: _outcome(resource, current, operation) for operation in operations}


def config_records(
    resource: Resource, current: Mapping[str, str], changes: Mapping[str, str | None]
) -> list[ConfigRecord]:
    """The records of the changes, after the settings that result have been checked."""
    after = {name: value for name, value in {**current, **changes}.items() if value is not None}
    for value in after.values():
        if len(value.encode()) >= CONFIG_VALUE_BYTES_MAX:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value size of "
                f"{CONFIG_VALUE_BYTES_MAX - 1} bytes.",
            )
    if resource.type is ResourceType.TOPIC:
        _check_topic(after)
    else:
        _check_broker(resource, {name: value for name, value in after.items() if name in changes})
    return [
        ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
        for name, value in changes.items()
        if current.get(name) != value
    ]


def _outcome(resource: Resource, current: Mapping[str, str], operation: Operation) -> str | None:
    try:
        operator = Operator(operation.config_operation)
    except ValueError:
        what = f"Unknown operations type {operation.config_operation}"
        raise ApiError(ErrorCode.INVALID_REQUEST, what) from None
    if operator is Operator.DELETE:
        return None
    if operator is Operator.SET:
        return operation.value
    setting = _DECLARED[resource.type].get(operation.name)
    if setting is None or setting.type is not SettingType.LIST:
        what = f"Can't {operator.name} to key {operation.name} because its type is not LIST."
        raise ApiError(ErrorCode.INVALID_CONFIG, what)
    parts = split_list(current.get(operation.name, setting.default or ""))
    given = split_list(operation.value or "")
    if operator is Operator.APPEND:
        return ",".join([*parts, *(part for part in dict.fromkeys(given) if part not in parts)])
    return ",".join(part for part in parts if part not in given)


def _check_names(names: list[str], empty: list[str]) -> None:
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if empty:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {','.join(empty)}")


def _check_topic(after: Mapping[str, str]) -> None:
    try:
        check_topic_settings(after)
    except SettingError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None


def _check_broker(resource: Resource, changed: Mapping[str, str]) -> None:
    fixed = [name for name in changed if name in BROKER_SETTINGS and not BROKER_SETTINGS[name].dynamic]
    if fixed:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    for name, text in changed.items():
        if name in CLUSTER_ONLY and resource.name != CLUSTER_DEFAULT:
            raise ApiError(
                ErrorCode.INVALID_CONFIG, f"{name} is set for a topic or for all brokers, never for one (R23)."
            )
        setting = BROKER_SETTINGS.get(name)
        try:
            if setting is None:
                _refuse_undeclared(name, text)
            else:
                setting.parse(text)
        except SettingError as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None


def _refuse_undeclared(name: str, text: str) -> None:
    from hightide.metadata.settings.unhonoured import judge_broker_setting

    problem = judge_broker_setting(name, text)
    if problem is not None:
        raise SettingError(problem)


def _broker_name(view: View, name: str) -> str:
    if name == CLUSTER_DEFAULT:
        return name
    if not (name.isascii() and name.isdigit() and len(name) <= 10):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) not in view.image.brokers:
        raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {int(name)} found.")
    return str(int(name))
