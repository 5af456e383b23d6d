"""The commands that change settings, and what partitions owe to them.

One that changes min.insync.replicas recomputes eligible sets with it, one that switches to fsync says that nobody has
reported a synced log yet (R23), one that allows unclean elections holds them where nobody leads. All of that is judged
on the settings as the whole request leaves them, and committed in the same batch.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.config_changes import altered, config_records, replaced, resource_of
from hightide.metadata.decision import Decision, Plan, View
from hightide.metadata.elections import eligible_leaders, last_known
from hightide.metadata.entities import CLUSTER_DEFAULT, Partition, Resource, ResourceType, Topic
from hightide.metadata.rounds import Round
from hightide.types import PartitionKey
from hightide.wire.message import LogRecord
from hightide.wire.messages import alter_configs as legacy
from hightide.wire.messages import incremental_alter_configs as incremental
from hightide.wire.messages.metadata_log import ConfigRecord, PartitionChangeRecord

MIN_IN_SYNC: Final = "min.insync.replicas"
DURABILITY: Final = "hightide.durability"
UNCLEAN: Final = "unclean.leader.election.enable"


def alter_configs(view: View, request: legacy.AlterConfigsRequest) -> Decision[legacy.AlterConfigsResponse]:
    """Replace the settings of resources."""
    records: list[ConfigRecord] = []
    responses = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for wish in request.resources:
        response = legacy.AlterConfigsResourceResponse(
            resource_type=wish.resource_type, resource_name=wish.resource_name, error_message=None
        )
        try:
            resource = _once(view, counts, wish.resource_type, wish.resource_name)
            current = view.image.settings_of(*resource)
            records += config_records(resource, current, replaced(current, wish.configs))
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    kept = [] if request.validate_only else _with_consequences(view, records)
    return Decision(kept, legacy.AlterConfigsResponse(responses=responses))


def incremental_alter_configs(
    view: View, request: incremental.IncrementalAlterConfigsRequest
) -> Decision[incremental.IncrementalAlterConfigsResponse]:
    """Set, delete, append to and subtract from the settings of resources."""
    records: list[ConfigRecord] = []
    responses = []
    counts = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    for wish in request.resources:
        response = incremental.AlterConfigsResourceResponse(
            resource_type=wish.resource_type, resource_name=wish.resource_name, error_message=None
        )
        try:
            resource = _once(view, counts, wish.resource_type, wish.resource_name)
            current = view.image.settings_of(*resource)
            records += config_records(resource, current, altered(resource, current, wish.configs))
        except ApiError as error:
            response.error_code, response.error_message = error.code, error.message
        responses.append(response)
    kept = [] if request.validate_only else _with_consequences(view, records)
    return Decision(kept, incremental.IncrementalAlterConfigsResponse(responses=responses))


def _once(view: View, counts: Counter[tuple[int, str]], kind: int, name: str) -> Resource:
    if counts[kind, name] > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    return resource_of(view, kind, name)


def _with_consequences(view: View, records: list[ConfigRecord]) -> list[LogRecord]:
    """The records, and those of the partitions that depend on what they change. Rare, so each is looked at."""
    if not any(record.name in (MIN_IN_SYNC, DURABILITY, UNCLEAN) for record in records):
        return list(records)
    plan = Plan(view)
    plan.add(records)
    cluster = plan.view.image.settings_of(ResourceType.BROKER, CLUSTER_DEFAULT)
    plan.view = plan.view._replace(settings=view.settings.with_dynamic(cluster, {}))
    settled = list(_settled(view, plan.view, _depending(plan.view, records, (MIN_IN_SYNC, DURABILITY))))
    plan.add(settled)
    allowed = [t for t in _depending(plan.view, records, (UNCLEAN,)) if plan.view.unclean_election_allowed(t)]
    round_ = Round(plan.view)
    for topic in allowed:
        waiting = (n for n, partition in enumerate(topic.partitions) if not partition.has_leader)
        round_.elect_all(PartitionKey(topic.topic_id, number) for number in waiting)
    plan.add(round_.records)
    return plan.records


def _depending(view: View, records: list[ConfigRecord], names: tuple[str, ...]) -> Iterable[Topic]:
    """The topics whose value of one of these settings may have changed."""
    changed = [(Resource(ResourceType(r.resource_type), r.resource_name), r.name) for r in records if r.name in names]
    topics: dict[bytes, Topic] = {}
    for resource, _ in changed:
        if resource.type is ResourceType.TOPIC:
            topic = view.image.topic_named(resource.name)
            topics |= {} if topic is None else {topic.topic_id: topic}
        elif resource.name == CLUSTER_DEFAULT:
            return list(view.image.topics.values())
    return topics.values()


def _settled(before: View, after: View, topics: Iterable[Topic]) -> Iterator[PartitionChangeRecord]:
    for topic in topics:
        is_switch = after.is_synced_before_acknowledged(topic) and not before.is_synced_before_acknowledged(topic)
        for number, partition in enumerate(topic.partitions):
            changed = _recomputed(after, topic, partition)
            if is_switch and after.rules.r23_switch_waits_for_reports:
                changed = changed._replace(whole_logs_synced=False)
            record = partition.change_to(changed, topic.topic_id, number)
            if record is not None:
                yield record


def _recomputed(view: View, topic: Topic, partition: Partition) -> Partition:
    if not view.rules.r23_minimum_recomputes_eligible:
        return partition
    in_sync, minimum = partition.in_sync_replicas, view.min_in_sync(topic, len(partition.replicas))
    return partition._replace(
        eligible_leader_replicas=eligible_leaders(partition, in_sync, minimum, rules=view.rules),
        last_known_eligible=last_known(partition, in_sync, minimum),
    )
