"""The coordinator on a whole node in memory: every version of its APIs, what it keeps, and what it refuses."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from hightide.errors import ErrorCode
from hightide.sim.disk import SimulatedDisk
from hightide.types import OFFSETS_TOPIC
from hightide.wire.message import ApiMessage
from hightide.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from hightide.wire.messages.delete_groups import DeleteGroupsRequest
from hightide.wire.messages.describe_groups import DescribeGroupsRequest
from hightide.wire.messages.find_coordinator import FindCoordinatorRequest
from hightide.wire.messages.heartbeat import HeartbeatRequest
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from hightide.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from hightide.wire.messages.list_groups import ListGroupsRequest
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from hightide.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from hightide.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from hightide.wire.versions import VALID_VERSIONS
from tests.memory_world import MemoryBroker
from tests.requests import create_topic, delete_topic, produce

SETTINGS = {"offsets_topic_num_partitions": "3", "hightide_profile": "dev"}
EIGHT_DAYS_MS = 8 * 24 * 3_600_000


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


async def started(disk: SimulatedDisk | None = None, *, seed: int = 0, **settings: str) -> MemoryBroker:
    """A broker with the topic "t" whose coordinators are ready."""
    wishes: dict[str, Any] = SETTINGS | settings
    broker = await MemoryBroker(disk or SimulatedDisk(), seed=seed, **wishes).start()
    if broker.node.image.topic_named("t") is None:
        await broker.call(create_topic("t", partitions=2), 7)
    await coordinated(broker)
    return broker


async def coordinated(broker: MemoryBroker) -> None:
    while True:
        found = await broker.call(FindCoordinatorRequest(key="g"), 3)
        if not found.error_code:
            answer = await broker.call(HeartbeatRequest(group_id="g", member_id="x"), 4)
            if answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                return
        await asyncio.sleep(0.001)


def commit(
    offset: int, partition: int = 0, *, topic: str = "t", topic_id: bytes = bytes(16), **fields: Any
) -> ApiMessage:
    return OffsetCommitRequest(
        group_id="g",
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)],
            )
        ],
        **fields,
    )


def fetch_request(version: int, topic_id: bytes = bytes(16), everything: bool = False) -> ApiMessage:
    if version < 8:
        old = None if everything else [OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])]
        return OffsetFetchRequest(group_id="g", topics=old)
    topics = None if everything else [OffsetFetchRequestTopics(name="t", topic_id=topic_id, partition_indexes=[0, 1])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)])


async def committed(broker: MemoryBroker, version: int = 9, *, everything: bool = False) -> dict[int, int]:
    topic = broker.node.image.topic_named("t")
    assert topic is not None
    answer = await broker.call(fetch_request(version, topic.topic_id, everything), version)
    group = answer if version < 8 else answer.groups[0]
    assert group.error_code == 0
    return {each.partition_index: each.committed_offset for part in group.topics for each in part.partitions}


async def join(broker: MemoryBroker, version: int = 9, **fields: Any) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=6000,
        rebalance_timeout_ms=6000 if version else -1,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **fields,
    )
    answer = await broker.call(request, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        assert version >= 4
        request.member_id = answer.member_id
        answer = await broker.call(request, version)
    return answer


@pytest.mark.parametrize("version", range(VALID_VERSIONS[11][1] + 1))
def test_a_member_in_every_version(version: int) -> None:
    """From JoinGroup to LeaveGroup, each API in the version with that number, or its newest."""

    async def scenario() -> None:
        broker = await started()

        def at(api_key: int) -> int:
            low, high = VALID_VERSIONS[api_key]
            return min(max(version, low), high)

        joined = await join(broker, version)
        assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
        assert [(each.member_id, each.metadata) for each in joined.members] == [(joined.member_id, b"m")]
        member: dict[str, Any] = {"member_id": joined.member_id, "group_id": "g"}
        mine = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
        named: dict[str, Any] = {"protocol_type": "consumer", "protocol_name": "range"} if at(14) >= 5 else {}
        synced = await broker.call(SyncGroupRequest(generation_id=1, assignments=mine, **member, **named), at(14))
        assert (synced.error_code, synced.assignment) == (0, b"all")
        assert (await broker.call(HeartbeatRequest(generation_id=1, **member), at(12))).error_code == 0
        assert (await broker.call(HeartbeatRequest(generation_id=2, **member), at(12))).error_code == 22

        described = (await broker.call(DescribeGroupsRequest(groups=["g"]), at(15))).groups[0]
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        assert (described.members[0].client_id, described.members[0].client_host) == ("test", "/memory")
        listed = (await broker.call(ListGroupsRequest(), at(16))).groups
        assert [(each.group_id, each.protocol_type) for each in listed] == [("g", "consumer")]
        deleted = await broker.call(DeleteGroupsRequest(groups_names=["g"]), at(42))
        assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP

        leaving = LeaveGroupRequest(group_id="g", member_id=joined.member_id)
        if at(13) >= 3:
            leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
        left = await broker.call(leaving, at(13))
        assert [left.error_code, *(each.error_code for each in left.members)] in ([0], [0, 0])
        deleted = await broker.call(DeleteGroupsRequest(groups_names=["g", "h"]), at(42))
        assert [each.error_code for each in deleted.results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
        assert (await broker.call(ListGroupsRequest(), at(16))).groups == []
        await broker.node.stop()
        assert broker.node.stats.unexpected_errors == 0

    run(scenario())


@pytest.mark.parametrize("version", range(2, VALID_VERSIONS[8][1] + 1))
def test_offsets_in_every_version(version: int) -> None:
    async def scenario() -> None:
        broker = await started()
        topic = broker.node.image.topic_named("t")
        assert topic is not None
        by_id: dict[str, Any] = {"topic": "", "topic_id": topic.topic_id} if version >= 10 else {}
        retention: dict[str, Any] = {"retention_time_ms": -1} if version <= 4 else {}
        answer = await broker.call(commit(5, **by_id, **retention), version)
        assert answer.topics[0].partitions[0].error_code == 0
        wrong: dict[str, Any] = {"topic": "", "topic_id": b"\x07" * 16} if version >= 10 else {"topic": "missing"}
        answer = await broker.call(commit(5, **wrong), version)
        expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert answer.topics[0].partitions[0].error_code == expected
        answer = await broker.call(commit(5, partition=9, **by_id), version)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for reading in range(1, VALID_VERSIONS[9][1] + 1):
            assert await committed(broker, reading) == {0: 5, 1: -1}
            if reading >= 2:
                assert await committed(broker, reading, everything=True) == {0: 5}
        await broker.node.stop()
        assert broker.node.stats.unexpected_errors == 0

    run(scenario())


@pytest.mark.parametrize("version", range(VALID_VERSIONS[10][1] + 1))
def test_coordinators_are_found_in_every_version(version: int) -> None:
    async def scenario() -> None:
        broker = await started()
        request = (
            FindCoordinatorRequest(key="g") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g", "h"])
        )
        answer = await broker.call(request, version)
        found = [answer] if version < 4 else answer.coordinators
        assert [(each.error_code, each.node_id) for each in found] == [(0, 1)] * len(found)
        if version:
            other = (
                FindCoordinatorRequest(key="x", key_type=1)
                if version < 4
                else FindCoordinatorRequest(coordinator_keys=["x"], key_type=1)
            )
            answer = await broker.call(other, version)
            found = [answer] if version < 4 else answer.coordinators
            assert found[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await broker.node.stop()

    run(scenario())


def test_the_topic_is_kafkas() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        assert (await broker.call(FindCoordinatorRequest(key="g"), 3)).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await coordinated(broker)
        topic = broker.node.image.topic_named(OFFSETS_TOPIC)
        assert topic is not None
        assert len(topic.partitions) == 50
        assert dict(broker.node.topic_overrides(OFFSETS_TOPIC)) == {
            "cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600",
        }  # fmt: skip
        answer = await broker.call(produce(OFFSETS_TOPIC, [b"x"]), 9)
        assert answer.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        await broker.node.stop()

    run(scenario())


@pytest.mark.covers("N9", "C29")
def test_a_restart_forgets_nothing_that_was_promised() -> None:
    async def scenario() -> None:
        disk = SimulatedDisk()
        broker = await started(disk)
        joined = await join(broker)
        member: dict[str, Any] = {"member_id": joined.member_id, "group_id": "g", "generation_id": 1}
        mine = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")]
        await broker.call(SyncGroupRequest(assignments=mine, **member), 5)
        await broker.call(commit(7, member_id=joined.member_id, generation_id_or_member_epoch=1), 9)
        broker.die()
        disk.kill()
        again = await started(disk, seed=1)
        assert await committed(again) == {0: 7, 1: -1}
        assert (await again.call(HeartbeatRequest(**member), 4)).error_code == 0
        synced = await again.call(SyncGroupRequest(**member), 5)
        assert (synced.error_code, synced.assignment) == (0, b"all")
        await again.node.stop()

    run(scenario())


def test_nothing_is_told_before_it_is_committed() -> None:
    async def scenario() -> None:
        broker = await started()
        broker.world.syncer.held = True
        broker.send(commit(5), 9)
        reader = broker.world.network.client()
        writer, broker.connection = broker.connection, reader
        broker.send(fetch_request(9), 9)
        await asyncio.sleep(0.02)
        assert writer.replies.empty()
        assert reader.replies.empty()
        broker.world.syncer.release()
        answer = await broker.receive(9, 9)
        assert answer.groups[0].topics[0].partitions[0].committed_offset == 5
        broker.connection = writer
        assert (await broker.receive(8, 9)).topics[0].partitions[0].error_code == 0
        await broker.node.stop()

    run(scenario())


def test_replicas_that_take_too_long_are_a_coordinator_that_is_not_available() -> None:
    async def scenario() -> None:
        broker = await started(offsets_commit_timeout_ms="20")
        broker.world.syncer.held = True
        answer = await broker.call(commit(5), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        answer = await broker.call(fetch_request(9), 9)
        assert answer.groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        broker.world.syncer.release()
        assert await committed(broker) == {0: 5, 1: -1}, "it was kept after all"
        await broker.node.stop()

    run(scenario())


def test_a_commit_that_is_too_large_for_a_batch() -> None:
    async def scenario() -> None:
        broker = await started(offset_metadata_max_bytes="2000000")
        request = commit(5)
        assert isinstance(request, OffsetCommitRequest)
        request.topics[0].partitions[0].committed_metadata = "x" * 30_000
        request.topics[0].partitions *= 40
        answer = await broker.call(request, 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_COMMIT_OFFSET_SIZE
        assert await committed(broker) == {0: -1, 1: -1}
        await broker.node.stop()

    run(scenario())


def test_single_offsets_are_deleted() -> None:
    async def scenario() -> None:
        broker = await started()
        await broker.call(commit(5), 9)
        await broker.call(commit(6, partition=1), 9)
        topics = [
            OffsetDeleteRequestTopic(name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            for name in ("t", "missing")
        ]
        answer = await broker.call(OffsetDeleteRequest(group_id="g", topics=topics), 0)
        assert [each.partitions[0].error_code for each in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert await committed(broker) == {0: -1, 1: 6}
        answer = await broker.call(OffsetDeleteRequest(group_id="h", topics=topics), 0)
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        await broker.node.stop()

    run(scenario())


def test_offsets_go_with_their_topic() -> None:
    async def scenario() -> None:
        broker = await started()
        await broker.call(create_topic("u"), 7)
        await broker.call(commit(5), 9)
        await broker.call(commit(6, topic="u"), 9)
        await broker.call(delete_topic("t"), 4)
        await broker.call(create_topic("t", partitions=2), 7)
        assert await committed(broker) == {0: -1, 1: -1}
        assert await committed(broker, everything=True) == {0: 6}, "of the other topic"
        await broker.node.stop()

    run(scenario())


def test_offsets_of_an_empty_group_expire() -> None:
    async def scenario() -> None:
        broker = await started()
        await broker.call(commit(5), 9)
        now_ms = broker.world.clock.wall_ms()
        broker.node.coordinators.expire(now_ms)
        await asyncio.sleep(0.01)
        assert await committed(broker) == {0: 5, 1: -1}
        broker.node.coordinators.expire(now_ms + EIGHT_DAYS_MS)
        await asyncio.sleep(0.01)
        assert await committed(broker) == {0: -1, 1: -1}
        await broker.node.stop()

    run(scenario())


def test_a_stopping_broker_sends_waiting_members_away() -> None:
    async def scenario() -> None:
        broker = await started(group_initial_rebalance_delay_ms="60000")
        first = await broker.call(
            JoinGroupRequest(
                group_id="g", session_timeout_ms=6000, rebalance_timeout_ms=60_000, protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range")],
            ), 9,
        )  # fmt: skip
        request = JoinGroupRequest(
            group_id="g", member_id=first.member_id, session_timeout_ms=6000, rebalance_timeout_ms=60_000,
            protocol_type="consumer", protocols=[JoinGroupRequestProtocol(name="range")],
        )  # fmt: skip
        broker.send(request, 9)
        await asyncio.sleep(0.01)
        stopping = asyncio.create_task(broker.node.stop())
        assert (await broker.receive(11, 9)).error_code == ErrorCode.NOT_COORDINATOR
        await stopping

    run(scenario())


def test_a_member_whose_connection_is_gone_harms_nobody() -> None:
    async def scenario() -> None:
        broker = await started(group_initial_rebalance_delay_ms="50")
        lost = broker.connection
        joining = asyncio.create_task(join(broker))
        await asyncio.sleep(0.01)
        joining.cancel()
        lost.close()
        broker.connection = broker.world.network.client()
        joined = await join(broker)
        assert joined.error_code == 0
        assert len(joined.members) in (0, 2), "the lost one is a member until its session ends"
        await broker.node.stop()
        assert broker.node.stats.unexpected_errors == 0

    run(scenario())


@pytest.mark.parametrize("api_key", [11, 12, 13, 14])
def test_a_group_needs_a_name(api_key: int) -> None:
    requests: dict[int, ApiMessage] = {
        11: JoinGroupRequest(), 12: HeartbeatRequest(), 13: LeaveGroupRequest(), 14: SyncGroupRequest(),
    }  # fmt: skip

    async def scenario() -> None:
        broker = await started()
        for version in range(VALID_VERSIONS[api_key][1] + 1):
            assert (await broker.call(requests[api_key], version)).error_code == ErrorCode.INVALID_GROUP_ID
        await broker.node.stop()

    run(scenario())


def test_the_topic_does_not_grow_and_is_made_again_when_it_is_deleted() -> None:
    async def scenario() -> None:
        broker = await started()
        await broker.call(commit(5), 9)
        wish = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=OFFSETS_TOPIC, count=9)], timeout_ms=1000)
        assert (await broker.call(wish, 3)).results[0].error_code == ErrorCode.INVALID_PARTITIONS
        await broker.call(delete_topic(OFFSETS_TOPIC), 4)
        answer = await broker.call(commit(6), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        await coordinated(broker)
        assert await committed(broker) == {0: -1, 1: -1}
        await broker.node.stop()
        assert broker.node.stats.unexpected_errors == 0

    run(scenario())


def test_while_a_group_is_loaded_its_members_are_told_to_be_patient() -> None:
    async def scenario() -> None:
        broker = await started()
        joined = await join(broker)
        for shard in broker.node.coordinators:
            shard.is_loaded = False
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await broker.call(beat, 4)).error_code == 0, "clients give up when they are told the truth"
        sync = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert (await broker.call(sync, 5)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert (await join(broker, member_id=joined.member_id)).error_code == loading
        assert (await broker.call(commit(5), 9)).topics[0].partitions[0].error_code == loading
        assert (await broker.call(fetch_request(9), 9)).groups[0].error_code == loading
        assert (await broker.call(ListGroupsRequest(), 5)).error_code == loading
        assert (await broker.call(DescribeGroupsRequest(groups=["g"]), 6)).groups[0].error_code == loading
        assert (await broker.call(DeleteGroupsRequest(groups_names=["g"]), 2)).results[0].error_code == loading
        await broker.node.stop()

    run(scenario())


def test_before_the_topic_exists_nobody_coordinates() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk()).start()
        await broker.call(create_topic("t", partitions=2), 7)
        assert (await join(broker)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await broker.call(HeartbeatRequest(group_id="g"), 4)).error_code == ErrorCode.NOT_COORDINATOR
        answer = await broker.call(commit(5), 9)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await broker.call(fetch_request(1), 1)).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        assert (await broker.call(fetch_request(7), 7)).error_code == ErrorCode.NOT_COORDINATOR
        assert (await broker.call(ListGroupsRequest(), 5)).groups == []
        described = await broker.call(DescribeGroupsRequest(groups=["g"]), 6)
        assert described.groups[0].error_code == ErrorCode.NOT_COORDINATOR
        await broker.node.stop()

    run(scenario())
