"""CreatePartitions: more partitions for topics that exist. Ids go on where they ended (C2)."""

from collections import Counter

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.assignments import Seats, Strategies, check_manual_assignment, new_partition
from hightide.metadata.decision import Decision, View
from hightide.metadata.entities import Partition, Topic
from hightide.metadata.placement import Candidate, alternate_racks
from hightide.metadata.topic_creation import check_partition_limits
from hightide.types import INTERNAL_TOPICS
from hightide.wire.message import LogRecord
from hightide.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


def create_partitions(
    view: View, strategies: Strategies, request: CreatePartitionsRequest
) -> Decision[CreatePartitionsResponse]:
    """Records and results, in the order of the request; each topic stands alone."""
    counts = Counter(topic.name for topic in request.topics)
    records: list[LogRecord] = []
    results = []
    total = view.image.index.partition_count
    seats = Seats(view.image, strategies)
    for wish in request.topics:
        result = CreatePartitionsTopicResult(name=wish.name, error_message=None)
        try:
            if counts[wish.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic, added = _added(view, seats, wish, total)
            total += len(added)
            for partition in added:
                seats.take(partition.replicas)
            first = len(topic.partitions)
            records.extend(p.to_record(topic.topic_id, first + n) for n, p in enumerate(added))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return Decision([] if request.validate_only else records, CreatePartitionsResponse(results=results))


def _added(view: View, seats: Seats, wish: CreatePartitionsTopic, total: int) -> tuple[Topic, list[Partition]]:
    topic = view.image.topic_named(wish.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    have = len(topic.partitions)
    if wish.name in INTERNAL_TOPICS:  # who coordinates a group depends on it, and would be looked for elsewhere
        what = f"The number of partitions of {wish.name} cannot be changed."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, what)
    if wish.count == have:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if wish.count < have:
        what = f"The topic {wish.name} currently has {have} partition(s); {wish.count} would not be an increase."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, what)
    check_partition_limits(wish.count, total + wish.count - have)
    replicas = _replicas(view, seats, topic, wish)
    return topic, [new_partition(view.image, chosen, have + n) for n, chosen in enumerate(replicas)]


def _replicas(view: View, seats: Seats, topic: Topic, wish: CreatePartitionsTopic) -> list[list[int]]:
    have = len(topic.partitions)
    factor = len(topic.partitions[0].replicas)
    if wish.assignments is None:
        strategy = view.topic_overrides(topic).get("hightide.placement", view.settings.placement)
        return seats.place(strategy, range(have, wish.count), factor, _start(seats.candidates(), topic))
    if len(wish.assignments) != wish.count - have:
        what = (
            f"Attempted to add {wish.count - have} additional partition(s), "
            f"but only {len(wish.assignments)} assignment(s) were specified."
        )
        raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, what)
    for assignment in wish.assignments:
        check_manual_assignment(view.image, assignment.broker_ids, factor)
    return [list(assignment.broker_ids) for assignment in wish.assignments]


def _start(brokers: list[Candidate], topic: Topic) -> int:
    """Where partition 0 began, so that the pattern goes on; the beginning when that broker is gone."""
    order = [candidate.broker_id for candidate in alternate_racks(brokers)]
    first = topic.partitions[0].replicas[0]
    return order.index(first) if first in order else 0
