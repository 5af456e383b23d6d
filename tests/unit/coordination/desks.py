"""A coordinator at a desk: requests in short words, a log that commits when told, time that passes when told."""

from hightide.coordination.classic_group import Group
from hightide.coordination.classic_groups import Joiner
from hightide.coordination.coordinator import GroupCoordinator
from hightide.coordination.decisions import Decision, GroupRecord
from hightide.coordination.loading import Loading
from hightide.coordination.records import encode
from hightide.coordination.settings import GroupSettings
from hightide.errors import ErrorCode
from hightide.rules import ALL_ON, Rules
from hightide.types import ZERO_UUID
from hightide.wire.message import ApiMessage
from hightide.wire.messages.heartbeat import HeartbeatRequest
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from hightide.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

GROUP = "g"
NO_DELAY = GroupSettings(initial_rebalance_delay=0.0)


class Desk:
    """Everything about one group. A request's number is its caller; `answers` has what each was told."""

    def __init__(self, settings: GroupSettings = NO_DELAY, rules: Rules = ALL_ON) -> None:
        self.settings, self.rules = settings, rules
        self.machine = GroupCoordinator(settings, rules)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now = 100.0
        self.answers: dict[int, ApiMessage] = {}
        self.asked = 0
        self.refuses = False
        """Whether the log can't be appended to."""

    @property
    def now_ms(self) -> int:
        return int(self.now * 1000)

    @property
    def group(self) -> Group:
        return self.machine.groups[GROUP]

    @property
    def phase(self) -> str:
        """The group's, as tools show it."""
        return self.group.phase.value

    def carry_out(self, decision: Decision) -> None:
        """As a node does, with a log that commits at once."""
        if decision.records and self.refuses:
            for answer in decision.answers:
                assert isinstance(answer.caller, int)
                self.answers.pop(answer.caller, None)
            return
        self.append(decision.records)
        if decision.then is not None:
            decision.then()
        for caller, message in decision.answers:
            assert isinstance(caller, int)
            assert caller not in self.answers, "answered twice"
            self.answers[caller] = message

    def append(self, records: list[GroupRecord]) -> None:
        self.log += [encode(record) for record in records]
        for record in records:
            self.machine.apply(record, len(self.log))

    def reloaded(self) -> "Desk":
        """The next coordinator: what the log says, and nothing else."""
        desk = Desk(self.settings, self.rules)
        desk.now, desk.log, desk.asked = self.now, list(self.log), 1000
        loading = Loading()
        for end, (key, value) in enumerate(desk.log, 1):
            loading.add(key, value, end)
        for record, end in loading.newest():
            desk.machine.apply(record, end)
        assert loading.unreadable == []
        desk.machine.loaded(desk.now)
        return desk

    def pass_time(self, seconds: float) -> None:
        """Let every timer go off that is due until then, in order."""
        until = self.now + seconds
        while (due := self.machine.next_deadline) is not None and due <= until:
            self.now = max(self.now, due)
            decision = self.machine.classic.time_passed(self.now, self.now_ms)
            if decision is not None:
                self.carry_out(decision)
        self.now = until

    # ------------------------------------------------------------------ requests

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: dict[str, bytes] | None = None,
        version: int = 9,
        session: int = 10_000,
        rebalance: int = 60_000,
        kind: str = "consumer",
        group: str = GROUP,
    ) -> int:
        """The number of the request: look into `joined` for what came of it."""
        self.asked += 1
        offered = {"range": b"topics"} if protocols is None else protocols
        request = JoinGroupRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            session_timeout_ms=session,
            rebalance_timeout_ms=rebalance,
            protocol_type=kind,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in offered.items()],
        )
        who = Joiner(self.asked, version, "client", "/127.0.0.1", str(self.asked))
        self.carry_out(self.machine.classic.join(request, who, self.now, self.now_ms))
        return self.asked

    def joined(self, number: int) -> JoinGroupResponse:
        answer = self.answers[number]
        assert isinstance(answer, JoinGroupResponse)
        return answer

    def enter(self, **wishes: object) -> int:
        """A member with a new id of its own asks to join."""
        told = self.joined(self.join(**wishes))  # type: ignore[arg-type]
        assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
        return self.join(told.member_id, **wishes)  # type: ignore[arg-type]

    def sync(
        self,
        member_id: str,
        assignments: dict[str, bytes] | None = None,
        *,
        generation: int | None = None,
        instance: str | None = None,
        protocol: str | None = None,
    ) -> int:
        self.asked += 1
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance,
            generation_id=self.group.generation if generation is None else generation,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=data)
                for each, data in (assignments or {}).items()
            ],
        )
        self.carry_out(self.machine.classic.sync(request, self.asked, self.now, self.now_ms))
        return self.asked

    def synced(self, number: int) -> SyncGroupResponse:
        answer = self.answers[number]
        assert isinstance(answer, SyncGroupResponse)
        return answer

    def beat(self, member_id: str, *, generation: int | None = None, instance: str | None = None) -> ErrorCode:
        known = self.machine.groups.get(GROUP)
        current = 0 if known is None else known.generation
        request = HeartbeatRequest(
            group_id=GROUP,
            member_id=member_id,
            group_instance_id=instance,
            generation_id=current if generation is None else generation,
        )
        return self.machine.classic.heartbeat(request, self.now)

    def ask_to_leave(self, *members: MemberIdentity | str) -> int:
        """The number of the request, which is never answered when the log can't be appended to."""
        self.asked += 1
        identities = [MemberIdentity(member_id=each) if isinstance(each, str) else each for each in members]
        request = LeaveGroupRequest(group_id=GROUP, members=identities)
        self.carry_out(self.machine.classic.leave(request, self.asked, self.now, self.now_ms))
        return self.asked

    def leave(self, *members: MemberIdentity | str) -> LeaveGroupResponse:
        answer = self.answers[self.ask_to_leave(*members)]
        assert isinstance(answer, LeaveGroupResponse)
        return answer

    def commit(
        self,
        offset: int,
        member_id: str = "",
        generation: int = -1,
        *,
        instance: str | None = None,
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = None,
        retention_ms: int = -1,
        topic_id: bytes = ZERO_UUID,
        group: str = GROUP,
    ) -> ErrorCode:
        self.asked += 1
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            group_instance_id=instance,
            generation_id_or_member_epoch=generation,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=topic_id,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        self.carry_out(self.machine.offsets.commit(request, self.asked, self.now, self.now_ms))
        answer = self.answers[self.asked]
        assert isinstance(answer, OffsetCommitResponse)
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    # ------------------------------------------------------------------ whole stories

    def stable(self, count: int = 1, **wishes: object) -> list[str]:
        """A group of that many members, each with its number as its assignment: their ids, the leader first."""
        numbers = [self.enter(**wishes) for _ in range(count)]
        return self.settle([self._id_of(number) for number in numbers], **wishes)

    def _id_of(self, number: int) -> str:
        told = self.answers.get(number)
        if isinstance(told, JoinGroupResponse):
            return told.member_id
        return next(member.member_id for member in self.group.members.values() if member.join_caller == number)

    def settle(self, members: list[str], **wishes: object) -> list[str]:
        """Everybody joins again until one generation has them all, then gets an assignment."""
        for member_id in members:
            if self.group.members[member_id].join_caller is None:
                self.join(member_id, **wishes)  # type: ignore[arg-type]
        leader = self.group.leader
        assert leader is not None
        ordered = [leader, *(each for each in members if each != leader)]
        for member_id in ordered[1:]:
            self.sync(member_id)
        self.sync(leader, {each: b"%d" % number for number, each in enumerate(ordered)})
        return ordered
