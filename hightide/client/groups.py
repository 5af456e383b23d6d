"""Consumer groups from outside: who is in them, what they committed, and moving or deleting that.

Every question about a group goes to its coordinator, which is looked up again after an error that says it moved. Lists
are asked of every broker.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from hightide.client.admin import Outcomes, outcomes
from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.connections import Connection
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from hightide.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from hightide.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from hightide.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hightide.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse

T = TypeVar("T")

GROUP = 0  # the kind of key that FindCoordinator is asked for
LAST_VERSION_WITH_NAMES = 9  # of OffsetFetch and OffsetCommit: later ones name topics by id


class Groups:
    """The consumer groups of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def all(self) -> list[ListedGroup]:
        """Every group, by name."""

        async def attempt() -> list[ListedGroup]:
            metadata = await self._cluster.metadata()
            found = await asyncio.gather(*(self._list_of(broker_id) for broker_id in metadata.brokers))
            groups = {group.group_id: group for groups in found for group in groups}
            return [group for _, group in sorted(groups.items())]

        return await self._cluster.retrying(attempt)

    async def _list_of(self, broker_id: int) -> list[ListedGroup]:
        connection = await self._cluster.broker(broker_id)
        response = await connection.call(ListGroupsRequest(), ListGroupsResponse)
        _check(response.error_code, f"the groups of broker {broker_id}")
        return response.groups

    async def describe(self, name: str) -> DescribedGroup:
        """Its state and its members; a group that nobody knows is `Dead`, or GROUP_ID_NOT_FOUND."""

        async def ask(coordinator: Connection) -> DescribedGroup:
            response = await coordinator.call(DescribeGroupsRequest(groups=[name]), DescribeGroupsResponse)
            (group,) = response.groups
            _check(group.error_code, f"group {name}")
            return group

        return await self._ask_coordinator(name, ask)

    async def committed(self, name: str) -> dict[TopicPartition, int]:
        """Every offset that the group has committed."""

        async def ask(coordinator: Connection) -> dict[TopicPartition, int]:
            request = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=name, topics=None)], require_stable=False
            )
            version = coordinator.version_of(request.api_key, LAST_VERSION_WITH_NAMES)
            response = await coordinator.call(request, OffsetFetchResponse, version=version)
            (group,) = response.groups
            _check(group.error_code, f"the offsets of group {name}")
            return {
                TopicPartition(topic.name, partition.partition_index): partition.committed_offset
                for topic in group.topics
                for partition in topic.partitions
                if not partition.error_code and partition.committed_offset >= 0
            }

        return await self._ask_coordinator(name, ask)

    async def commit(self, name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit for a group without members; UNKNOWN_MEMBER_ID when it has some."""
        topics: defaultdict[str, list[OffsetCommitRequestPartition]] = defaultdict(list)
        for where, offset in offsets.items():
            topics[where.topic].append(
                OffsetCommitRequestPartition(partition_index=where.partition, committed_offset=offset)
            )
        request = OffsetCommitRequest(
            group_id=name,
            topics=[
                OffsetCommitRequestTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()
            ],
        )

        async def ask(coordinator: Connection) -> None:
            version = coordinator.version_of(request.api_key, LAST_VERSION_WITH_NAMES)
            response = await coordinator.call(request, OffsetCommitResponse, version=version)
            for topic in response.topics:
                for partition in topic.partitions:
                    _check(partition.error_code, f"{topic.name}-{partition.partition_index} of group {name}")

        await self._ask_coordinator(name, ask)

    async def delete(self, names: Sequence[str]) -> Outcomes:
        """Delete groups without members, with all they committed."""

        async def delete_one(name: str) -> Outcomes:
            async def ask(coordinator: Connection) -> Outcomes:
                response = await coordinator.call(DeleteGroupsRequest(groups_names=[name]), DeleteGroupsResponse)
                found = outcomes((result.group_id, result.error_code, None) for result in response.results)
                error = found[name]
                if error is not None and error.retriable:
                    raise error
                return found

            try:
                return await self._ask_coordinator(name, ask)
            except ApiError as error:
                return {name: error}

        done: Outcomes = {}
        for found in await asyncio.gather(*map(delete_one, names)):
            done |= found
        return done

    async def _ask_coordinator(self, name: str, ask: Callable[[Connection], Awaitable[T]]) -> T:
        async def attempt() -> T:
            return await ask(await self._coordinator(name))

        return await self._cluster.retrying(attempt)

    async def _coordinator(self, name: str) -> Connection:
        connection = await self._cluster.any_broker()
        request = FindCoordinatorRequest(key=name, key_type=GROUP, coordinator_keys=[name])
        version = connection.version_of(request.api_key)
        if version >= 4:
            request.key = ""
        else:
            request.coordinator_keys = []
        response = await connection.call(request, FindCoordinatorResponse, version=version)
        if version >= 4:
            (found,) = response.coordinators
            _check(found.error_code, found.error_message or f"the coordinator of group {name}")
            return await self._cluster.broker(found.node_id)
        _check(response.error_code, response.error_message or f"the coordinator of group {name}")
        return await self._cluster.broker(response.node_id)


def _check(code: int, about: str) -> None:
    if code:
        raise ApiError(ErrorCode(code_of(code)), about)
