"""A member of a group at level 0: a consumer that joins, leads when it is told to, handles records and commits.

As eager as stock clients are: it gives everything up before it joins again. It tells a history what it was told, and
goes wrong in the ways that clients do: it stops for a while and goes on where it was, dies, is started again, loses
answers and asks twice. One request at a time; its requests to one broker arrive in their order.
"""

from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from hightide.coordination.classic_groups import Joiner
from hightide.errors import ErrorCode
from hightide.sim.history.operations import Commit, Ownership
from hightide.sim.level0.group_broker import GROUP
from hightide.types import TopicPartition
from hightide.wire.messages.heartbeat import HeartbeatRequest
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from hightide.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

if TYPE_CHECKING:
    from hightide.sim.level0.group_world import GroupWorld

TOPIC = "t"
PARTITIONS = 5
SESSION_MS, STATIC_SESSION_MS, REBALANCE_MS = 6_000, 20_000, 5_000
STEP_SECONDS = 1.0
REQUEST_SECONDS, JOIN_SECONDS = 4.0, 15.0
FENCED_FOREVER = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_MAX_SIZE_REACHED)
ELSEWHERE = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Call(NamedTuple):
    """One request on its way: a caller for the machine."""

    member: "GroupMember"
    number: int
    kind: str
    request: Any
    joiner: Joiner | None = None


class Life(Enum):
    """Where a member is."""

    OUTSIDE = 0
    JOINING = 1
    ASKING = 2
    OWNING = 3
    DEAD = 4


class GroupMember:
    """One process. `instance` makes it static: another process may take its place."""

    def __init__(self, world: "GroupWorld", name: str, instance: str | None = None) -> None:
        self.world = world
        self.name = name
        self.instance = instance
        self.life = Life.OUTSIDE
        self.member_id = ""
        self.generation = -1
        self.coordinator: int | None = None
        self.positions: dict[TopicPartition, int] = {}
        self.arrivals: dict[int, float] = {}
        self.paused_until = 0.0
        self._kept: dict[TopicPartition, int] = {}
        self._ownership: Ownership | None = None
        self._commit: Commit | None = None
        self._asked = 0
        self._number = 0
        self._answered = True
        self._step = 0

    @property
    def is_alive(self) -> bool:
        """Whether its process runs."""
        return self.life is not Life.DEAD

    # ------------------------------------------------------------------ asking

    def start(self) -> None:
        """Look for the coordinator, then join."""
        self._soon(self._find)

    def _soon(self, action: Any, seconds: float = 0.1) -> None:
        """Do something a little later, unless something else was begun until then, and not while it is stopped."""
        self.world.kernel.after(seconds, self._go_on, action, self._number)

    def _go_on(self, action: Any, number: int) -> None:
        if not self.is_alive or number != self._number:
            return
        now = self.world.kernel.now
        if now < self.paused_until:
            self.world.kernel.at(self.paused_until, self._go_on, action, number)
        else:
            action()

    def _ask(self, kind: str, request: Any, joiner: bool = False) -> None:
        assert self.coordinator is not None
        self._number += 1
        self._answered = False
        call = Call(self, self._number, kind, request)
        if joiner:
            token = f"{self.world.tokens.getrandbits(32):08x}"
            call = call._replace(joiner=Joiner(call, 9, self.name, "/h", token))
        self.world.send(self.coordinator, call)
        self._soon(self._timed_out, JOIN_SECONDS if kind in ("join", "sync") else REQUEST_SECONDS)

    def _timed_out(self) -> None:
        """Nobody knows what became of it: look for the coordinator again."""
        if not self._answered:
            self._end_commit(None)
            self._lost_coordinator()

    def _lost_coordinator(self) -> None:
        self.coordinator = None
        self._number += 1
        self._soon(self._find, 0.2)

    def _find(self) -> None:
        self.coordinator = self.world.coordinator_for(self)
        if self.coordinator is None:
            self._soon(self._find, 0.5)
        elif self.life is Life.OWNING:
            self._work()
        else:
            self._join()

    def answered(self, number: int, message: Any) -> None:
        """An answer arrives, unless this member gave up on it."""
        if not self.is_alive or number != self._number or self._answered:
            return
        now = self.world.kernel.now
        if now < self.paused_until:
            self.world.kernel.at(self.paused_until, self.answered, number, message)
            return
        self._answered = True
        code = message if isinstance(message, ErrorCode) else ErrorCode(getattr(message, "error_code", 0))
        if isinstance(message, OffsetCommitResponse):
            code = ErrorCode(message.topics[0].partitions[0].error_code)
        self._end_commit(code)
        if code in FENCED_FOREVER:
            self.die()
        elif code in ELSEWHERE:
            self._lost_coordinator()
        elif code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION):
            self._give_up()
            if code is ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._join()
        elif code is ErrorCode.REBALANCE_IN_PROGRESS:
            self._hand_over()
        elif code is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = message.member_id
            self._join()
        else:
            self._went_well(message)

    # ------------------------------------------------------------------ the protocol

    def _join(self) -> None:
        self._give_up()
        self.life = Life.JOINING
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS if self.instance is None else STATIC_SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        self._ask("join", request, joiner=True)

    def _went_well(self, message: Any) -> None:
        if isinstance(message, JoinGroupResponse):
            self._joined(message)
        elif isinstance(message, SyncGroupResponse):
            self._assigned(message.assignment)
        elif isinstance(message, dict):
            self._go_from(message)
        elif self.life is Life.OWNING:
            self._soon(self._work, STEP_SECONDS)
        else:
            self._join()

    def _joined(self, message: JoinGroupResponse) -> None:
        self.member_id, self.generation = message.member_id, message.generation_id
        assignments = []
        if message.leader == message.member_id and not message.skip_assignment:
            members = sorted(each.member_id for each in message.members)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=bytes(range(number, PARTITIONS, len(members))))
                for number, member in enumerate(members)
            ]
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            assignments=assignments,
        )
        self._ask("sync", request)

    def _assigned(self, assignment: bytes) -> None:
        places = [TopicPartition(TOPIC, number) for number in assignment]
        owner = self.instance or self.name
        self._ownership = self.world.history.owned(owner, GROUP, places, self.generation)
        self.life = Life.ASKING
        self._asked = self.world.history.moment()
        self._ask("fetch", places)

    def _go_from(self, offsets: dict[TopicPartition, int]) -> None:
        self.world.history.read_committed(self.name, GROUP, offsets, asked=self._asked)
        self.positions = {place: max(0, offset) for place, offset in offsets.items()}
        self._kept = dict(self.positions)
        self.life = Life.OWNING
        self._soon(self._work, STEP_SECONDS)

    def _work(self) -> None:
        """Handle some records, then say that it lives or how far it is."""
        if self.coordinator is None:
            self._find()
            return
        for place in self.positions:
            self.positions[place] += self.world.tokens.randrange(4)
        self._step += 1
        if self._step % 2 and self.positions != self._kept:
            self._commit_positions()
        else:
            self._ask(
                "heartbeat",
                HeartbeatRequest(
                    group_id=GROUP,
                    generation_id=self.generation,
                    member_id=self.member_id,
                    group_instance_id=self.instance,
                ),
            )

    def _commit_positions(self) -> None:
        offsets = {place: offset for place, offset in self.positions.items() if offset != self._kept[place]}
        self._commit = self.world.history.begin_commit(self.name, GROUP, offsets)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=[
                OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=place.partition, committed_offset=offset)
                        for place, offset in offsets.items()
                    ],
                )
            ],
        )
        self._ask("commit", request)

    def _end_commit(self, code: ErrorCode | None) -> None:
        commit, self._commit = self._commit, None
        if commit is None:
            return
        if code is ErrorCode.NONE:
            self._kept.update(commit.offsets)
            self.world.history.committed(commit)
            self.world.commits += 1
        elif code is None or code in ELSEWHERE:
            self.world.history.unknown(commit)
        else:
            self.world.history.failed(commit, code.name)

    def _hand_over(self) -> None:
        """A rebalance: commit what was handled, once, and join again."""
        if self.life is Life.OWNING and self.positions != self._kept and self.coordinator is not None:
            self.life = Life.OUTSIDE
            self._commit_positions()
        else:
            self._join()

    def _give_up(self) -> None:
        if self._ownership is not None:
            self.world.history.gave_up(self._ownership)
            self._ownership = None
        self.positions, self._kept = {}, {}
        if self.life is not Life.DEAD:
            self.life = Life.OUTSIDE

    # ------------------------------------------------------------------ what happens to it

    def pause(self, seconds: float) -> None:
        """Stop, and go on later as if nothing had been."""
        self.paused_until = max(self.paused_until, self.world.kernel.now + seconds)

    def die(self) -> None:
        """The process is gone."""
        self._end_commit(None)
        self._give_up()
        self.life = Life.DEAD

    def leave(self) -> None:
        """Go in peace."""
        if self.coordinator is not None and self.member_id and self.instance is None:
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
            self.world.send(self.coordinator, Call(self, -1, "leave", request))
        self.die()

    @property
    def owned(self) -> frozenset[TopicPartition]:
        """What it believes to be its own."""
        return frozenset() if self._ownership is None else self._ownership.partitions
