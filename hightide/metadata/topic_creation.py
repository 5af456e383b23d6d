"""CreateTopics: every check of Kafka's controller, in its order and words, then the records of what passed.

Topics of one request stand alone: one that fails does not stop the others. Nothing is created with fewer replicas
than were asked for (T14).
"""

from collections import Counter
from collections.abc import Callable

from hightide.errors import ApiError, ErrorCode
from hightide.limits import PARTITIONS_MAX, PARTITIONS_PER_TOPIC_MAX, TOPICS_PER_REQUEST_MAX
from hightide.metadata.assignments import Seats, Strategies, check_manual_assignment, new_partition
from hightide.metadata.decision import Decision, View
from hightide.metadata.entities import Partition, ResourceType
from hightide.metadata.settings.definition import SettingError
from hightide.metadata.settings.described import describe_topic
from hightide.metadata.settings.topic_values import check_topic_settings
from hightide.metadata.topic_names import NewNames, check_topic_name
from hightide.types import METADATA_TOPIC, METADATA_TOPIC_ID, ZERO_UUID
from hightide.wire.message import LogRecord
from hightide.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from hightide.wire.messages.metadata_log import ConfigRecord, TopicRecord

NewId = Callable[[], bytes]


class Creation:
    """One CreateTopics request on its way through the checks. `start` is where the first topic's placement begins."""

    def __init__(self, view: View, strategies: Strategies, start: int, new_id: NewId) -> None:
        self._view = view
        self._seats = Seats(view.image, strategies)
        self._new_id = new_id
        self._names = NewNames(view.image.index)
        self._partitions = view.image.index.partition_count
        self._records: list[LogRecord] = []
        self._described_defaults: list[CreatableTopicConfigs] | None = None
        self.next_start = start

    def decide(self, request: CreateTopicsRequest) -> Decision[CreateTopicsResponse]:
        """Records and results, in the order of the request."""
        counts = Counter(topic.name for topic in request.topics)
        results = []
        for topic in request.topics:
            kept = len(self._records)
            try:
                if len(request.topics) > TOPICS_PER_REQUEST_MAX:
                    what = f"A request may create at most {TOPICS_PER_REQUEST_MAX} topics."
                    raise ApiError(ErrorCode.POLICY_VIOLATION, what)
                if counts[topic.name] > 1:
                    raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results.append(self._create(topic, validate_only=request.validate_only))
            except ApiError as error:
                del self._records[kept:]
                results.append(
                    CreatableTopicResult(name=topic.name, error_code=error.code, error_message=error.message)
                )
        records = [] if request.validate_only else self._records
        return Decision(records, CreateTopicsResponse(topics=results))

    def _create(self, topic: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
        self._check_name(topic.name)
        overrides = self._overrides(topic)
        partitions = self._assigned(topic) if topic.assignments else self._placed(topic, overrides)
        self._names.add(topic.name)
        self._partitions += len(partitions)
        for partition in partitions:
            self._seats.take(partition.replicas)
        topic_id = ZERO_UUID if validate_only else self._unused_id()
        self._records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        for name, value in overrides.items():
            self._records.append(
                ConfigRecord(resource_type=ResourceType.TOPIC, resource_name=topic.name, name=name, value=value)
            )
        self._records.extend(partition.to_record(topic_id, n) for n, partition in enumerate(partitions))
        self.next_start += 1
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic_id,
            error_message=None,
            num_partitions=len(partitions),
            replication_factor=len(partitions[0].replicas),
            configs=self._described(overrides),
        )

    def _described(self, overrides: dict[str, str]) -> list[CreatableTopicConfigs]:
        if not overrides and self._described_defaults is not None:
            return self._described_defaults  # a request for thousands of plain topics describes them once
        described = [
            CreatableTopicConfigs(name=d.name, value=d.value, config_source=d.source, read_only=d.read_only)
            for d in describe_topic(overrides, self._view.settings)
        ]
        if not overrides:
            self._described_defaults = described
        return described

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
        check_topic_name(name)
        if name in self._view.image.topic_ids:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        self._names.check(name)

    def _overrides(self, topic: CreatableTopic) -> dict[str, str]:
        empty = [config.name for config in topic.configs if config.value is None]
        if empty:
            what = f"Null value not supported for topic configs: {','.join(empty)}"
            raise ApiError(ErrorCode.INVALID_CONFIG, what)
        overrides = {config.name: config.value for config in topic.configs if config.value is not None}
        try:
            check_topic_settings(overrides)
        except SettingError as error:
            raise ApiError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return overrides

    def _assigned(self, topic: CreatableTopic) -> list[Partition]:
        if topic.replication_factor != -1:
            what = "A manual partition assignment was specified, but replication factor was not set to -1."
            raise ApiError(ErrorCode.INVALID_REQUEST, what)
        if topic.num_partitions != -1:
            what = "A manual partition assignment was specified, but numPartitions was not set to -1."
            raise ApiError(ErrorCode.INVALID_REQUEST, what)
        self._check_limits(len(topic.assignments))
        invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        partitions: dict[int, Partition] = {}
        replication_factor = None
        for assignment in topic.assignments:
            number = assignment.partition_index
            if number in partitions:
                what = f"Found multiple manual partition assignments for partition {number}"
                raise ApiError(invalid, what)
            check_manual_assignment(self._view.image, assignment.broker_ids, replication_factor)
            replication_factor = len(assignment.broker_ids)
            partitions[number] = new_partition(self._view.image, assignment.broker_ids, number)
        if sorted(partitions) != list(range(len(partitions))):
            raise ApiError(invalid, "partitions should be a consecutive 0-based integer sequence")
        return [partitions[number] for number in range(len(partitions))]

    def _placed(self, topic: CreatableTopic, overrides: dict[str, str]) -> list[Partition]:
        if topic.replication_factor < -1 or topic.replication_factor == 0:
            what = "Replication factor must be larger than 0, or -1 to use the default value."
            raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, what)
        if topic.num_partitions < -1 or topic.num_partitions == 0:
            what = "Number of partitions was set to an invalid non-positive value."
            raise ApiError(ErrorCode.INVALID_PARTITIONS, what)
        settings = self._view.settings
        count = settings.num_partitions if topic.num_partitions == -1 else topic.num_partitions
        factor = settings.default_replication_factor if topic.replication_factor == -1 else topic.replication_factor
        self._check_limits(count)
        strategy = overrides.get("hightide.placement", settings.placement)
        placed = self._seats.place(strategy, range(count), factor, self.next_start)
        return [new_partition(self._view.image, replicas, number) for number, replicas in enumerate(placed)]

    def _check_limits(self, count: int) -> None:
        check_partition_limits(count, count + self._partitions)

    def _unused_id(self) -> bytes:
        """A random id that means nothing else and does not look like an option on a command line."""
        while True:
            topic_id = self._new_id()
            begins_with_dash = topic_id[0] >> 2 == 62
            reserved = topic_id in (ZERO_UUID, METADATA_TOPIC_ID)
            if not begins_with_dash and not reserved and topic_id not in self._view.image.topics:
                return topic_id


def check_partition_limits(of_topic: int, of_cluster: int) -> None:
    """Everything has a limit: INVALID_PARTITIONS for a topic's, POLICY_VIOLATION for the cluster's."""
    if of_topic > PARTITIONS_PER_TOPIC_MAX:
        what = f"A topic may have at most {PARTITIONS_PER_TOPIC_MAX} partitions, not {of_topic}."
        raise ApiError(ErrorCode.INVALID_PARTITIONS, what)
    if of_cluster > PARTITIONS_MAX:
        raise ApiError(ErrorCode.POLICY_VIOLATION, f"The cluster may have at most {PARTITIONS_MAX} partitions.")
