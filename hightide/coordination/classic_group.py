"""A classic group and its members: what is known of them. Every change is made in `classic_groups`."""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final, NamedTuple

from hightide.coordination.decisions import Caller, GroupRecord
from hightide.types import TopicPartition
from hightide.wire.messages.group_log import GroupMetadataKey, GroupMetadataValue, MemberMetadata

CONSUMER: Final = "consumer"
"""The protocol type of consumers, the one whose metadata a coordinator may look into."""


class Phase(StrEnum):
    """Kafka's states by the names its tools show. A group that is gone is Dead, which is no phase of a group here."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class Member:
    """One member. Its metadata and its assignment are bytes that only the members understand.

    A loaded member has the metadata of the chosen protocol only: that is all a record keeps.
    """

    __slots__ = (
        "assignment",
        "awaits_sync",
        "client_host",
        "client_id",
        "deadline",
        "instance_id",
        "is_new",
        "join_caller",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_caller",
        "timer",
        "timer_at",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Iterable[tuple[str, bytes]],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = dict(protocols)
        self.assignment = assignment
        self.join_caller: Caller | None = None
        self.sync_caller: Caller | None = None
        self.deadline = 0.0
        """When its session ends, unless it is heard before."""
        self.timer, self.timer_at = -1, float("inf")
        """The number of its entry among the timers, and its time, which may be earlier than the deadline."""
        self.awaits_sync = False
        """Whether it was told of this generation and did not ask for its assignment yet."""
        self.is_new = True
        """Whether no generation had it yet."""

    @property
    def metadata_bytes(self) -> int:
        """What it says of itself, for the limit."""
        return sum(len(metadata) for metadata in self.protocols.values())


class CommittedOffset(NamedTuple):
    """How far a group has come with a partition. Times are the wall clock's, in milliseconds."""

    offset: int
    leader_epoch: int
    metadata: str
    committed_at: int
    expires_at: int
    """When an old client said it should be forgotten; -1 leaves it to the broker."""
    topic_id: bytes


class Group:
    """One group of the classic protocol, or nothing but the offsets of consumers that assign themselves."""

    __slots__ = (
        "generation",
        "grew",
        "group_id",
        "instances",
        "is_first",
        "is_stored",
        "join_left",
        "join_timer",
        "joined",
        "leader",
        "members",
        "offsets",
        "pending",
        "phase",
        "protocol",
        "protocol_type",
        "state_timestamp",
        "supported",
        "sync_timer",
        "written_end",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.phase = Phase.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        """In the order in which they came."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        """What was committed."""
        self.instances: dict[str, str] = {}
        """Static members (KIP-345): instance id → member id."""
        self.supported: dict[str, int] = {}
        """How many members support each protocol."""
        self.joined = 0
        """How many members wait for the next generation."""
        self.pending: dict[str, int] = {}
        """Ids that were handed out and not used yet (KIP-394), each with the number of its timer."""
        self.state_timestamp = -1
        """Wall-clock time of the last record; an empty group's offsets are kept for a while from then on."""
        self.written_end = 0
        """The log's end after the last record about this group: answers rest on it."""
        self.is_stored = False
        """Whether the log has a record of the group itself, which a tombstone must end."""
        self.join_timer = self.sync_timer = -1
        self.is_first = False
        """Whether this rebalance is the first of an empty group, which is put off for latecomers."""
        self.join_left = 0.0
        """How much longer the first rebalance of a group may be put off for latecomers."""
        self.grew = False
        """Whether a member came since it was last put off."""

    # ------------------------------------------------------------------ members

    def add(self, member: Member) -> None:
        """Take a member in. The first one leads."""
        self.members[member.member_id] = member
        self._count(member, 1)
        if member.join_caller is not None:
            self.joined += 1
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """Forget a member. The next in line leads."""
        del self.members[member.member_id]
        self._count(member, -1)
        if member.join_caller is not None:
            self.joined -= 1
        if member.instance_id is not None and self.instances.get(member.instance_id) == member.member_id:
            del self.instances[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def offer(self, member: Member, protocols: Iterable[tuple[str, bytes]]) -> None:
        """A member says anew what it supports."""
        self._count(member, -1)
        member.protocols = dict(protocols)
        self._count(member, 1)

    def _count(self, member: Member, change: int) -> None:
        for name in member.protocols:
            self.supported[name] = self.supported.get(name, 0) + change

    def take_join(self, member: Member, caller: Caller | None = None) -> Caller | None:
        """Whoever waited for this member's next generation, replaced by another or by nobody."""
        former, member.join_caller = member.join_caller, caller
        self.joined += (caller is not None) - (former is not None)
        return former

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody is waited for before the next generation."""
        return not self.pending and self.joined == len(self.members)

    @property
    def rebalance_timeout(self) -> float:
        """Seconds that the slowest member asks for to finish its work and join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0) / 1000

    @property
    def is_disposable(self) -> bool:
        """Whether nothing would be lost with it."""
        return not self.members and not self.pending and not self.is_stored and not self.offsets

    # ------------------------------------------------------------------ protocols

    def supports(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Whether somebody with these protocols could be a member beside the others."""
        if not self.members:
            return True
        everybody = len(self.members)
        return protocol_type == self.protocol_type and any(self.supported.get(name) == everybody for name in names)

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all have; at a tie the leader's favourite wins."""
        everybody = len(self.members)
        votes = {name: 0 for name, count in self.supported.items() if count == everybody}
        for member in self.members.values():
            votes[next(name for name in member.protocols if name in votes)] += 1
        leader = self.members[self.leader or ""]
        return max((name for name in leader.protocols if name in votes), key=lambda name: votes[name])

    def metadata_of(self, member: Member) -> bytes:
        """What a member said under the chosen protocol."""
        return member.protocols.get(self.protocol or "", b"")

    # ------------------------------------------------------------------ records

    def record(self, assignments: dict[str, bytes], members: Iterable[Member], now_ms: int) -> GroupRecord:
        """The record of the present generation with these members and assignments."""
        value = GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=now_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=self.metadata_of(member),
                    assignment=assignments.get(member.member_id, b""),
                )
                for member in members
            ],
        )
        return GroupRecord(GroupMetadataKey(group=self.group_id), value)

    def waiting(self) -> Iterator[Caller]:
        """Everybody who waits for an answer."""
        for member in self.members.values():
            if member.join_caller is not None:
                yield member.join_caller
            if member.sync_caller is not None:
                yield member.sync_caller
