"""A member of a consumer group: one request at a time, and what each answer means.

Eager, as the oldest clients are: whoever has to join again gives everything up first. It commits and asks in the
generation it was told; an error that ends its membership raises `MembershipLostError`, and `join` begins anew.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hightide.client.answers import code_of
from hightide.client.cluster import Cluster
from hightide.client.connections import Answer, Connection
from hightide.client.retries import sleep
from hightide.errors import ApiError, ErrorCode
from hightide.types import NO_BROKER, TopicPartition
from hightide.wire.message import ApiMessage
from hightide.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from hightide.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from hightide.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from hightide.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hightide.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

T = TypeVar("T")

GROUP_LANE = "group"  # a join waits for others: nothing else may wait behind it
CONSUMER = "consumer"
PROTOCOL_VERSION = 1
WITH_NAMES = 9  # the newest version of OffsetCommit and OffsetFetch that names topics
PAUSE_SECONDS = 0.1
_ELSEWHERE = {
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
}


class MembershipLostError(Exception):
    """The group goes on without this member as it is: it has to join again. `code` says why."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Assigned(NamedTuple):
    """What a member has, and in which generation."""

    generation: int
    partitions: tuple[TopicPartition, ...]


class GroupMember:
    """One member. `instance` makes it static (KIP-345)."""

    def __init__(
        self,
        cluster: Cluster,
        group: str,
        topics: Sequence[str],
        *,
        instance: str | None = None,
        session_timeout_ms: int = 10_000,
        rebalance_timeout_ms: int = 30_000,
    ) -> None:
        self.group = group
        self.member_id = ""
        self.generation = -1
        self._cluster = cluster
        self._topics = list(topics)
        self._instance = instance
        self._session_timeout_ms = session_timeout_ms
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._coordinator = NO_BROKER

    # ------------------------------------------------------------------ membership

    async def join(self) -> Assigned:
        """Join until there is an assignment. ApiError when no attempt can help, or nobody answers for long."""
        while True:
            try:
                return await self._try_to_join()
            except MembershipLostError as error:
                if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                    self.member_id = ""

    async def _try_to_join(self) -> Assigned:
        subscription = ConsumerProtocolSubscription(topics=self._topics).encode(PROTOCOL_VERSION)
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=self._rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self._instance,
            protocol_type=CONSUMER,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=_versioned(subscription))],
        )
        joined = await self._ask(request, JoinGroupResponse, self._rebalance_timeout_ms / 1000 + 5)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = joined.member_id
            joined = await self._ask(request, JoinGroupResponse, self._rebalance_timeout_ms / 1000 + 5)
        self._check(joined.error_code)
        self.member_id, self.generation = joined.member_id, joined.generation_id
        leads = joined.leader == joined.member_id and not joined.skip_assignment
        assignments = await self._share([each.member_id for each in joined.members]) if leads else []
        synced = await self._ask(
            SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                group_instance_id=self._instance,
                assignments=assignments,
            ),
            SyncGroupResponse,
            self._rebalance_timeout_ms / 1000 + 5,
        )
        self._check(synced.error_code)
        return Assigned(self.generation, _partitions(synced.assignment))

    async def _share(self, members: list[str]) -> list[SyncGroupRequestAssignment]:
        """As leader: all partitions in turn, one to each."""
        places = [(name, index) for name in self._topics for index in (await self._cluster.topic(name)).partitions]
        members.sort()
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=_assignment(places[number :: len(members)]))
            for number, member in enumerate(members)
        ]

    async def heartbeat(self) -> None:
        """Say that it lives; MembershipLostError when it has to join again."""
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
        )
        self._check((await self._ask(request, HeartbeatResponse)).error_code)

    async def leave(self) -> None:
        """Go at once."""
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self._instance)
        await self._ask(LeaveGroupRequest(group_id=self.group, members=[identity]), LeaveGroupResponse)
        self.member_id = ""

    # ------------------------------------------------------------------ offsets

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Keep how far the group has come; MembershipLostError when it is not this member's to say any more."""
        topics: dict[str, OffsetCommitRequestTopic] = {}
        for (name, index), offset in offsets.items():
            topic = topics.setdefault(name, OffsetCommitRequestTopic(name=name))
            topic.partitions.append(OffsetCommitRequestPartition(partition_index=index, committed_offset=offset))
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self._instance,
            topics=list(topics.values()),
        )
        answer = await self._ask(request, OffsetCommitResponse, version=WITH_NAMES)
        for code in {partition.error_code for told in answer.topics for partition in told.partitions}:
            self._check(code)

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """How far the group has come; -1 where nobody committed."""
        topics: dict[str, OffsetFetchRequestTopics] = {}
        for name, index in partitions:
            topics.setdefault(name, OffsetFetchRequestTopics(name=name)).partition_indexes.append(index)
        group = OffsetFetchRequestGroup(group_id=self.group, topics=list(topics.values()))
        answer = await self._ask(OffsetFetchRequest(groups=[group]), OffsetFetchResponse, version=WITH_NAMES)
        (told,) = answer.groups
        self._check(told.error_code)
        return {
            TopicPartition(topic.name, partition.partition_index): partition.committed_offset
            for topic in told.topics
            for partition in topic.partitions
        }

    # ------------------------------------------------------------------ the coordinator

    async def _ask(
        self, request: ApiMessage, answer: type[Answer], timeout: float | None = None, version: int | None = None
    ) -> Answer:
        """Ask the coordinator once; an ApiError of `_ELSEWHERE` says that nobody knows what became of it."""
        try:
            connection = await self._find()
            chosen = None if version is None else connection.version_of(request.api_key, version)
            return await connection.call(request, answer, timeout=timeout, version=chosen)
        except ApiError as error:
            self._heard(error)
            raise

    async def _find(self) -> Connection:
        """The coordinator, looked for until there is one: for as long as the cluster's retries allow."""
        deadline = self._cluster.clock.now() + self._cluster.retries.give_up_after
        while self._coordinator == NO_BROKER:
            connection = await self._cluster.any_broker()
            request = FindCoordinatorRequest(coordinator_keys=[self.group])
            (found,) = (await connection.call(request, FindCoordinatorResponse)).coordinators
            if not found.error_code:
                self._coordinator = found.node_id
            elif self._cluster.clock.now() >= deadline:
                raise ApiError(code_of(found.error_code), f"group {self.group} has no coordinator")
            else:
                await sleep(self._cluster.clock, PAUSE_SECONDS)
        return await self._cluster.broker(self._coordinator, GROUP_LANE)

    def _heard(self, error: ApiError) -> None:
        self._cluster.heard(error)
        if error.code in _ELSEWHERE or error.code is ErrorCode.LEADER_NOT_AVAILABLE:
            self._coordinator = NO_BROKER

    def _check(self, code: int) -> None:
        if not code:
            return
        error = ApiError(code_of(code), f"group {self.group}")
        self._heard(error)
        if error.code in _ELSEWHERE or error.code in (
            ErrorCode.FENCED_INSTANCE_ID,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            ErrorCode.INVALID_SESSION_TIMEOUT,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ):
            raise error
        raise MembershipLostError(error.code)


def _versioned(body: bytes) -> bytes:
    return PROTOCOL_VERSION.to_bytes(2, "big") + body


def _assignment(places: Iterable[tuple[str, int]]) -> bytes:
    topics: dict[str, ConsumerProtocolAssignmentTopicPartition] = {}
    for name, index in places:
        topics.setdefault(name, ConsumerProtocolAssignmentTopicPartition(topic=name)).partitions.append(index)
    return _versioned(ConsumerProtocolAssignment(assigned_partitions=list(topics.values())).encode(PROTOCOL_VERSION))


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...]:
    if not assignment:
        return ()
    told = ConsumerProtocolAssignment.decode(
        assignment[2:], min(int.from_bytes(assignment[:2], "big"), PROTOCOL_VERSION)
    )
    return tuple(TopicPartition(topic.topic, index) for topic in told.assigned_partitions for index in topic.partitions)
