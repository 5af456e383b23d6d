"""Questions and commands about topics, partitions, records, brokers and disks.

Commands on several things answer for each: its name with an ApiError, or with None when it was done. Commands go to
the controller that Metadata names; NOT_CONTROLLER is retried there.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.errors import ApiError, ErrorCode
from hightide.types import METADATA_TOPIC, TopicPartition
from hightide.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from hightide.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from hightide.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from hightide.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from hightide.wire.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from hightide.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
)

BROKERS_CHOICE = -1  # the number of partitions or replicas is up to the broker's defaults
_FIRST_DELETE_VERSION_WITH_STATES = 6

Outcomes = dict[str, ApiError | None]
Attempt = Callable[[], Awaitable[Outcomes]]


class NewTopic(NamedTuple):
    """A topic to create; `assignments` (partition to broker ids, the leader first) replace the two numbers."""

    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    configs: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] = {}


class Admin:
    """Administration of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._timeout_ms = int(cluster.request_timeout * 1000)

    async def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> Outcomes:
        """Create, or only ask whether it could be done."""
        request = CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics], timeout_ms=self._timeout_ms, validate_only=validate_only
        )

        async def attempt() -> Outcomes:
            response = await (await self._cluster.controller()).call(request, CreateTopicsResponse)
            return outcomes((each.name, each.error_code, each.error_message) for each in response.topics)

        return await self._command(attempt)

    async def delete_topics(self, names: Sequence[str]) -> Outcomes:
        """Delete topics with everything in them."""

        async def attempt() -> Outcomes:
            connection = await self._cluster.controller()
            request = DeleteTopicsRequest(timeout_ms=self._timeout_ms)
            if connection.version_of(request.api_key) >= _FIRST_DELETE_VERSION_WITH_STATES:
                request.topics = [DeleteTopicState(name=name) for name in names]
            else:
                request.topic_names = list(names)
            response = await connection.call(request, DeleteTopicsResponse)
            return outcomes((each.name or "", each.error_code, each.error_message) for each in response.responses)

        return await self._command(attempt)

    async def create_partitions(self, counts: Mapping[str, int], *, validate_only: bool = False) -> Outcomes:
        """Give topics more partitions: that many altogether."""
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in counts.items()],
            timeout_ms=self._timeout_ms,
            validate_only=validate_only,
        )

        async def attempt() -> Outcomes:
            response = await (await self._cluster.controller()).call(request, CreatePartitionsResponse)
            return outcomes((each.name, each.error_code, each.error_message) for each in response.results)

        return await self._command(attempt)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete everything below these offsets (-1: below the high watermark); answers the new log starts."""
        return await self._cluster.retrying(lambda: self._delete_records(before))

    async def describe_cluster(self) -> DescribeClusterResponse:
        """Cluster id, controller and brokers."""

        async def attempt() -> DescribeClusterResponse:
            response = await (await self._cluster.any_broker()).call(DescribeClusterRequest(), DescribeClusterResponse)
            if response.error_code:
                raise ApiError(code_of(response.error_code), response.error_message or "")
            return response

        return await self._cluster.retrying(attempt)

    async def describe_quorum(self) -> DescribeQuorumResponsePartitionData:
        """The controllers: who leads them, and how far each has the metadata log."""
        partitions = [DescribeQuorumRequestPartitionData(partition_index=0)]
        request = DescribeQuorumRequest(
            topics=[DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=partitions)]
        )

        async def attempt() -> DescribeQuorumResponsePartitionData:
            response = await (await self._cluster.any_broker()).call(request, DescribeQuorumResponse)
            found = [part for topic in response.topics for part in topic.partitions]
            code = response.error_code or (found[0].error_code if found else ErrorCode.UNKNOWN_SERVER_ERROR)
            if code:
                raise ApiError(code_of(code), response.error_message or "the controllers are not known")
            return found[0]

        return await self._cluster.retrying(attempt)

    async def describe_log_dirs(self, broker_id: int) -> list[DescribeLogDirsResult]:
        """The log directories of one broker with the size of every replica in them."""

        async def attempt() -> list[DescribeLogDirsResult]:
            connection = await self._cluster.broker(broker_id)
            request = DescribeLogDirsRequest(topics=None, include_ends=True)
            response = await connection.call(request, DescribeLogDirsResponse)
            if response.error_code:
                raise ApiError(code_of(response.error_code), f"log directories of broker {broker_id}")
            return response.results

        return await self._cluster.retrying(attempt)

    async def _command(self, attempt: Attempt) -> Outcomes:
        done = await self._cluster.retrying(lambda: _from_controller(attempt))
        self._cluster.expire()
        return done

    async def _delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        by_leader: defaultdict[int, defaultdict[str, list[DeleteRecordsPartition]]]
        by_leader = defaultdict(lambda: defaultdict(list))
        for (name, index), offset in before.items():
            leader = (await self._cluster.topic(name)).leader(index).leader
            by_leader[leader][name].append(DeleteRecordsPartition(partition_index=index, offset=offset))
        answers = await asyncio.gather(*(self._delete_at(leader, topics) for leader, topics in by_leader.items()))
        return {where: start for answer in answers for where, start in answer.items()}

    async def _delete_at(
        self, leader: int, topics: Mapping[str, list[DeleteRecordsPartition]]
    ) -> dict[TopicPartition, int]:
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
            timeout_ms=self._timeout_ms,
        )
        response = await (await self._cluster.broker(leader)).call(request, DeleteRecordsResponse)
        starts = {}
        for topic in response.topics:
            for partition in topic.partitions:
                where = TopicPartition(topic.name, partition.partition_index)
                if partition.error_code:
                    raise ApiError(code_of(partition.error_code), f"partition {where}")
                starts[where] = partition.low_watermark
        return starts


async def _from_controller(attempt: Attempt) -> Outcomes:
    done = await attempt()
    for error in done.values():
        if error is not None and error.code is ErrorCode.NOT_CONTROLLER:
            raise error
    return done


def outcomes(answers: Iterable[tuple[str, int, str | None]]) -> Outcomes:
    """Names with their errors, from (name, code, message)."""
    return {name: ApiError(code_of(code), message or "") if code else None for name, code, message in answers}


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=BROKERS_CHOICE if topic.assignments else topic.partitions,
        replication_factor=BROKERS_CHOICE if topic.assignments else topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in sorted(topic.assignments.items())
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )
