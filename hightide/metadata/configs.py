"""The commands that change settings. One that changes min.insync.replicas recomputes eligible sets with it (R23)."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.config_changes import altered, config_records, replaced, resource_of
from hightide.metadata.decision import Decision, View
from hightide.metadata.elections import eligible_leaders
from hightide.metadata.entities import CLUSTER_DEFAULT, Resource, ResourceType, Topic
from hightide.wire.message import LogRecord
from hightide.wire.messages import alter_configs as legacy
from hightide.wire.messages import incremental_alter_configs as incremental
from hightide.wire.messages.metadata_log import ConfigRecord, PartitionChangeRecord

MIN_IN_SYNC: Final = "min.insync.replicas"


def alter_configs(view: View, request: legacy.AlterConfigsRequest) -> Decision[legacy.AlterConfigsResponse]:
    """Replace the settings of resources."""
    records: list[LogRecord] = []
    responses = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for wish in request.resources:
        response = legacy.AlterConfigsResourceResponse(
            resource_type=wish.resource_type, resource_name=wish.resource_name, error_message=None
        )
        try:
            resource = _once(view, counts, wish.resource_type, wish.resource_name)
            current = view.image.settings_of(*resource)
            records += _judged(view, resource, config_records(resource, current, replaced(current, wish.configs)))
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    return Decision([] if request.validate_only else records, legacy.AlterConfigsResponse(responses=responses))


def incremental_alter_configs(
    view: View, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    """Set, delete, append to and subtract from the settings of resources."""
    records: list[LogRecord] = []
    responses = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for wish in request.resources:
        response = incremental.AlterConfigsResourceResponse(
            resource_type=wish.resource_type, resource_name=wish.resource_name, error_message=None
        )
        try:
            resource = _once(view, counts, wish.resource_type, wish.resource_name)
            current = view.image.settings_of(*resource)
            changes = altered(resource, current, wish.configs)
            records += _judged(view, resource, config_records(resource, current, changes))
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    kept = [] if request.validate_only else records
    return Decision(kept, incremental.IncrementalAlterConfigsResponse(responses=responses))


def _once(view: View, counts: Counter[tuple[int, str]], kind: int, name: str) -> Resource:
    if counts[kind, name] > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return resource_of(view, kind, name)


def _judged(view: View, resource: Resource, records: list[ConfigRecord]) -> Iterator[LogRecord]:
    yield from records
    for record in records:
        if record.name == MIN_IN_SYNC:
            yield from _eligible_sets(view, resource, record.value)


def _eligible_sets(view: View, resource: Resource, text: str | None) -> Iterator[LogRecord]:
    """R23. Rare, so every partition that depends on the setting is looked at."""
    below = view.settings.min_insync_replicas if resource.type is ResourceType.TOPIC else 1
    minimum = int(text) if text is not None else below
    for topic in _depending(view, resource):
        for number, partition in enumerate(topic.partitions):
            needed = min(minimum, len(partition.replicas))
            eligible = eligible_leaders(partition, partition.in_sync_replicas, needed)
            if eligible != partition.eligible_leader_replicas:
                yield PartitionChangeRecord(
                    topic_id=topic.topic_id, partition_id=number, eligible_leader_replicas=list(eligible)
                )


def _depending(view: View, resource: Resource) -> Iterable[Topic]:
    if resource.type is ResourceType.TOPIC:
        topic = view.image.topic_named(resource.name)
        return [topic] if topic is not None else []
    if resource.name != CLUSTER_DEFAULT:
        return []
    return [topic for topic in view.image.topics.values() if MIN_IN_SYNC not in view.topic_overrides(topic)]
