"""A member of a group against the real coordinator, which never makes anybody wait here: one member, or told errors."""

from collections.abc import Callable
from typing import Any

import pytest

from hightide.client.membership import Assigned, GroupMember, MembershipLostError
from hightide.coordination.classic_groups import Joiner
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.message import ApiMessage
from hightide.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from hightide.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from hightide.wire.messages.leave_group import LeaveGroupRequest
from hightide.wire.messages.offset_commit import OffsetCommitRequest
from hightide.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.unit.client.memory_cluster import MemoryCluster
from tests.unit.coordination.desks import GROUP, Desk

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class GroupCluster(MemoryCluster):
    """Two brokers; the second coordinates."""

    def __init__(self) -> None:
        super().__init__(brokers=2, topics={"t": 2})
        self.desk = Desk()
        self.answers |= {
            FindCoordinatorRequest: self._find,
            JoinGroupRequest: lambda request: self._decide(request, JoinGroupResponse, self._join),
            SyncGroupRequest: lambda request: self._decide(request, SyncGroupResponse, self.desk.machine.classic.sync),
            LeaveGroupRequest: lambda request: self._decide(request, None, self.desk.machine.classic.leave),
            OffsetCommitRequest: lambda request: self._decide(request, None, self.desk.machine.offsets.commit),
            HeartbeatRequest: self._heartbeat,
            OffsetFetchRequest: self._fetch_offsets,
        }

    def _find(self, request: FindCoordinatorRequest) -> ApiMessage:
        error = self._next_error(FindCoordinatorRequest)
        found = Coordinator(key=GROUP, node_id=2, host="broker", port=9002, error_code=error)
        return FindCoordinatorResponse(coordinators=[found])

    def _join(self, request: JoinGroupRequest, caller: int, now: float, now_ms: int) -> Any:
        who = Joiner(caller, 9, "test", "/h", str(caller))
        return self.desk.machine.classic.join(request, who, now, now_ms)

    def _decide(
        self, request: Any, refused: Callable[..., ApiMessage] | None, decide: Callable[..., Any]
    ) -> ApiMessage:
        error = self._next_error(type(request))
        if error and refused is not None:
            return refused(error_code=error)
        desk = self.desk
        desk.asked += 1
        desk.carry_out(decide(request, desk.asked, desk.now, desk.now_ms))
        return desk.answers[desk.asked]

    def _heartbeat(self, request: HeartbeatRequest) -> ApiMessage:
        error = self._next_error(HeartbeatRequest)
        return HeartbeatResponse(error_code=error or self.desk.machine.classic.heartbeat(request, self.desk.now))

    def _fetch_offsets(self, request: OffsetFetchRequest) -> ApiMessage:
        (group,) = request.groups
        topics = []
        for topic in group.topics or []:
            partitions = []
            for index in topic.partition_indexes:
                found = self.desk.machine.offsets.fetch(group.group_id, TopicPartition(topic.name, index))
                partitions.append(
                    OffsetFetchResponsePartitions(
                        partition_index=index, committed_offset=-1 if found is None else found.offset
                    )
                )
            topics.append(OffsetFetchResponseTopics(name=topic.name, partitions=partitions))
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)])


def member_of(memory: GroupCluster, **options: Any) -> GroupMember:
    return GroupMember(memory.client(), GROUP, ["t"], **options)


def test_a_lone_member_has_everything_and_goes_on_where_it_was() -> None:
    memory = GroupCluster()

    async def story() -> None:
        member = member_of(memory)
        assert await member.join() == Assigned(1, (T0, T1))
        await member.heartbeat()
        assert await member.committed([T0, T1]) == {T0: -1, T1: -1}
        await member.commit({T0: 5, T1: 7})
        await member.leave()
        again = member_of(memory)
        assert (await again.join()).generation > 1
        assert await again.committed([T0, T1]) == {T0: 5, T1: 7}

    memory.run(story())
    assert {broker for broker, request in memory.seen if isinstance(request, JoinGroupRequest)} == {2}


def test_whoever_is_not_known_any_more_joins_under_a_new_id() -> None:
    memory = GroupCluster()

    async def story() -> None:
        member = member_of(memory)
        await member.join()
        old = member.member_id
        memory.desk.leave(old)
        with pytest.raises(MembershipLostError, match="UNKNOWN_MEMBER_ID"):
            await member.heartbeat()
        assert (await member.join()).partitions == (T0, T1)
        assert member.member_id != old

    memory.run(story())


def test_old_generations_commit_nothing() -> None:
    memory = GroupCluster()

    async def story() -> None:
        member = member_of(memory)
        await member.join()
        member.generation -= 1
        with pytest.raises(MembershipLostError, match="ILLEGAL_GENERATION"):
            await member.commit({T0: 5})

    memory.run(story())
    assert memory.desk.group.offsets == {}


def test_a_coordinator_that_moved_is_looked_for_again() -> None:
    memory = GroupCluster()

    async def story() -> None:
        member = member_of(memory)
        await member.join()
        memory.fail(HeartbeatRequest, ErrorCode.NOT_COORDINATOR)
        with pytest.raises(ApiError, match="NOT_COORDINATOR"):
            await member.heartbeat()
        await member.heartbeat()

    memory.run(story())
    assert len(memory.requests(FindCoordinatorRequest)) == 2


def test_a_coordinator_is_waited_for_but_not_for_ever() -> None:
    memory = GroupCluster()
    memory.fail(FindCoordinatorRequest, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 5)

    async def story() -> None:
        assert (await member_of(memory).join()).partitions == (T0, T1)
        memory.fail(FindCoordinatorRequest, *[ErrorCode.COORDINATOR_NOT_AVAILABLE] * 1000)
        with pytest.raises(ApiError, match="COORDINATOR_NOT_AVAILABLE"):
            await member_of(memory).join()

    memory.run(story())


def test_what_no_attempt_can_mend_is_an_error() -> None:
    memory = GroupCluster()
    memory.fail(JoinGroupRequest, ErrorCode.GROUP_MAX_SIZE_REACHED)

    async def story() -> None:
        with pytest.raises(ApiError, match="GROUP_MAX_SIZE_REACHED"):
            await member_of(memory).join()

    memory.run(story())


def test_a_static_member_keeps_its_place_and_its_old_process_is_fenced() -> None:
    memory = GroupCluster()

    async def story() -> None:
        old = member_of(memory, instance="s")
        assert await old.join() == Assigned(1, (T0, T1))
        new = member_of(memory, instance="s")
        assert await new.join() == Assigned(1, (T0, T1)), "the same generation"
        with pytest.raises(ApiError, match="FENCED_INSTANCE_ID"):
            await old.heartbeat()
        await new.heartbeat()

    memory.run(story())
