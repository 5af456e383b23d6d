"""The classic group protocol: every transition of a group is in this file, so that they can be read together.

| phase | what happens | then |
|---|---|---|
| Empty | a member joins | Preparing, put off for latecomers (`group.initial.rebalance.delay.ms`) |
| Preparing | everybody has joined, or the rebalance time-out is over | Completing, in the next generation |
| Preparing | nobody is left | Empty in the next generation, as a record |
| Completing | the leader brings the assignments | Stable, as a record; everybody is told when it is committed |
| Completing, Stable | somebody joins, leaves, falls silent or does not ask for its assignment | Preparing |
| Completing, Stable | a follower joins again as it was | the same: it is told the generation again |
| Stable | a static member's new process joins as the old one was | Stable, as a record with its new id (KIP-345) |

R14: nobody is told an assignment before it is committed, every request of a member is fenced by its generation, and a
static member's new id is committed before it is used. Assignments and metadata are opaque: how the members share their
partitions, eagerly or cooperatively (KIP-429), is among themselves. What only the members of the present generation
can miss (who waits, until when, a generation without assignments) is not in the log and ends with the coordinator.
"""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from hightide.coordination.classic_group import Group, Member, Phase
from hightide.coordination.decisions import NOTHING, Answer, Caller, Decision
from hightide.coordination.settings import GroupSettings
from hightide.coordination.timers import Due, Kind, Timers
from hightide.errors import ApiError, ErrorCode
from hightide.limits import GROUP_METADATA_BYTES_MAX, GROUP_PROTOCOLS_MAX
from hightide.rules import ALL_ON, Rules
from hightide.wire.messages.group_log import GroupMetadataValue
from hightide.wire.messages.heartbeat import HeartbeatRequest
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from hightide.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

MEMBER_ID_FROM: Final = 4
"""JoinGroup's version from which on a member asks for its id first (KIP-394)."""
SKIP_ASSIGNMENT_FROM: Final = 9
NEW_MEMBER_SECONDS: Final = 300.0  # Kafka's: how long a newcomer may wait for its first generation
RETRY_SECONDS: Final = 1.0  # until a record that could not be appended is tried again


class Joiner(NamedTuple):
    """Who joins: what a JoinGroup request does not say itself. `token` makes a new id unique."""

    caller: Caller
    version: int
    client_id: str
    client_host: str
    token: str


class ClassicGroups:
    """The groups of one coordinator. `now` is monotonic seconds, `now_ms` the wall clock, for records only."""

    def __init__(self, settings: GroupSettings, rules: Rules = ALL_ON) -> None:
        self.settings = settings
        self.groups: dict[str, Group] = {}
        self.timers = Timers()
        self._rules = rules

    # ------------------------------------------------------------------ JoinGroup

    def join(self, request: JoinGroupRequest, who: Joiner, now: float, now_ms: int) -> Decision:
        """Take a member into the next generation, or tell it the present one."""
        try:
            self._check_join(request)
            return self._join(request, who, now, now_ms)
        except ApiError as error:
            return _refused(who.caller, error.code, request.member_id)

    def _check_join(self, request: JoinGroupRequest) -> None:
        if not request.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        settings = self.settings
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            raise ApiError(ErrorCode.INVALID_SESSION_TIMEOUT)
        if not request.protocol_type or not 0 < len(request.protocols) <= GROUP_PROTOCOLS_MAX:
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)

    def _join(self, request: JoinGroupRequest, who: Joiner, now: float, now_ms: int) -> Decision:
        group = self.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if len(self.groups) >= self.settings.groups_max:
                raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
            group = Group(request.group_id)
        self._check_room(group, request)
        if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
            raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        self.groups[request.group_id] = group
        if not request.member_id:
            return self._join_unknown(group, request, who, now, now_ms)
        if request.member_id in group.pending:
            return self._take_in(group, request, who, request.member_id, now, now_ms)
        member = self._member(group, request.member_id, request.group_instance_id)
        if group.phase is Phase.EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return self._join_again(group, member, request, who, now, now_ms)

    def _check_room(self, group: Group, request: JoinGroupRequest) -> None:
        member = group.members.get(request.member_id)
        if member is None and request.group_instance_id is not None:
            member = group.members.get(group.instances.get(request.group_instance_id, ""))
        others = len(group.pending.keys() - {request.member_id})
        if group.phase is Phase.PREPARING:
            # Those who joined count, so that a group whose maximum was lowered shrinks with its next rebalance.
            is_full = (member is None or member.join_caller is None) and group.joined + others >= self.settings.max_size
        else:
            is_full = member is None and len(group.members) + others >= self.settings.max_size
        size = sum(len(protocol.metadata) for protocol in request.protocols)
        if is_full or size * (len(group.members) + 1) > GROUP_METADATA_BYTES_MAX:
            raise ApiError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _join_unknown(self, group: Group, request: JoinGroupRequest, who: Joiner, now: float, now_ms: int) -> Decision:
        instance = request.group_instance_id
        if instance is not None:
            member_id = f"{instance}-{who.token}"
            if instance in group.instances:
                return self._replace(group, request, who, member_id, now, now_ms)
            return self._take_in(group, request, who, member_id, now, now_ms)
        member_id = f"{who.client_id}-{who.token}"
        if who.version < MEMBER_ID_FROM:
            return self._take_in(group, request, who, member_id, now, now_ms)
        until = now + request.session_timeout_ms / 1000
        group.pending[member_id] = self.timers.add(until, Kind.PENDING, group.group_id, member_id)
        return _refused(who.caller, ErrorCode.MEMBER_ID_REQUIRED, member_id)

    def _take_in(
        self, group: Group, request: JoinGroupRequest, who: Joiner, member_id: str, now: float, now_ms: int
    ) -> Decision:
        group.pending.pop(member_id, None)
        member = _new_member(request, who, member_id)
        member.join_caller = who.caller
        if not group.members:
            group.protocol_type = request.protocol_type
        group.add(member)
        group.grew = True
        self._expect(group, member, now + NEW_MEMBER_SECONDS)
        return self._rebalance(group, now, now_ms)

    def _join_again(
        self, group: Group, member: Member, request: JoinGroupRequest, who: Joiner, now: float, now_ms: int
    ) -> Decision:
        protocols = [(protocol.name, protocol.metadata) for protocol in request.protocols]
        is_same = list(member.protocols.items()) == protocols
        leads = group.leader == member.member_id
        if is_same and (group.phase is Phase.COMPLETING or (group.phase is Phase.STABLE and not leads)):
            self._hear(group, member, now)
            return Decision([], [Answer(who.caller, _joined(group, member))], group.written_end)
        group.offer(member, protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = _rebalance_timeout(request)
        former = group.take_join(member, who.caller)
        decision = self._rebalance(group, now, now_ms)
        if former is not None:  # the same member asks again, maybe over another connection
            decision.answers.append(_join_error(former, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        return decision

    # ------------------------------------------------------------------ static members

    def _replace(
        self, group: Group, request: JoinGroupRequest, who: Joiner, member_id: str, now: float, now_ms: int
    ) -> Decision:
        """A new process of a static member: nobody else notices, where the assignment stays the same."""
        former = group.members[group.instances[request.group_instance_id or ""]]
        member = _new_member(request, who, member_id)
        member.assignment = former.assignment
        if group.phase is Phase.STABLE and self._keeps_protocol(group, former, member):
            return self._replace_quietly(group, former, member, who, now, now_ms)
        answers = []
        if former.join_caller is not None:
            answers.append(_join_error(former.join_caller, ErrorCode.FENCED_INSTANCE_ID, former.member_id))
        if former.sync_caller is not None:
            answers.append(_sync_error(former.sync_caller, ErrorCode.FENCED_INSTANCE_ID))
        self._swap(group, former, member)
        group.take_join(member, who.caller)
        member.is_new = False
        self._hear(group, member, now)
        decision = self._rebalance(group, now, now_ms)
        decision.answers.extend(answers)
        return decision

    def _keeps_protocol(self, group: Group, former: Member, member: Member) -> bool:
        offered = list(former.protocols.items())
        group.offer(former, member.protocols.items())
        chosen = group.choose_protocol()
        group.offer(former, offered)
        return chosen == group.protocol

    def _replace_quietly(
        self, group: Group, former: Member, member: Member, who: Joiner, now: float, now_ms: int
    ) -> Decision:
        """The record has the new id in the old one's place; the old one is fenced as soon as it is appended."""
        leads = group.leader == former.member_id
        leader = member.member_id if leads else group.leader
        members = [member if each is former else each for each in group.members.values()]
        record = group.record({each.member_id: each.assignment for each in members}, members, now_ms)
        assert isinstance(record.value, GroupMetadataValue)
        record.value.leader = leader
        skips = leads and who.version >= SKIP_ASSIGNMENT_FROM
        told = JoinGroupResponse(
            generation_id=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol,
            # Before KIP-814 a leader was told its former id: so it takes no part in an assignment that stays.
            leader=(leader if skips else group.leader) or "",
            member_id=member.member_id,
            skip_assignment=skips,
            members=_members(group, members) if skips else [],
        )
        then = partial(self._replaced, group, former, member, now)
        if not self._rules.r14_static_changes_are_stored:
            then()
            return Decision([], [Answer(who.caller, told)])
        return Decision([record], [Answer(who.caller, told)], then=then)

    def _replaced(self, group: Group, former: Member, member: Member, now: float) -> None:
        if former.member_id in group.members:
            self._swap(group, former, member)
        stored = group.members[member.member_id]
        group.offer(stored, member.protocols.items())
        stored.is_new = False
        self._hear(group, stored, now)

    def _swap(self, group: Group, former: Member, member: Member) -> None:
        leads = group.leader == former.member_id
        group.remove(former)
        group.add(member)
        if leads:
            group.leader = member.member_id

    # ------------------------------------------------------------------ rebalancing

    def _rebalance(self, group: Group, now: float, now_ms: int) -> Decision:
        """Begin a rebalance unless one is under way, and end it when nobody is waited for."""
        answers: list[Answer] = []
        if group.phase is not Phase.PREPARING:
            answers = self._prepare(group, now)
        decision = self._complete(group, now, now_ms) if self._is_complete(group) else NOTHING
        return decision._replace(answers=[*decision.answers, *answers])

    def _is_complete(self, group: Group) -> bool:
        return group.phase is Phase.PREPARING and not group.is_first and group.has_all_joined

    def _prepare(self, group: Group, now: float) -> list[Answer]:
        """From here on members learn by their heartbeats that they have to join again."""
        answers = []
        for member in group.members.values():
            member.awaits_sync = False
            if member.sync_caller is not None:
                answers.append(_sync_error(member.sync_caller, ErrorCode.REBALANCE_IN_PROGRESS))
                member.sync_caller = None
                self._hear(group, member, now)
        was_empty = group.phase is Phase.EMPTY
        group.phase = Phase.PREPARING
        group.sync_timer = -1
        delay = self.settings.initial_rebalance_delay
        group.is_first = was_empty and delay > 0
        group.grew = False
        wait = group.rebalance_timeout
        if group.is_first:
            group.join_left = max(0.0, wait - delay)
            wait = min(wait, delay)
        group.join_timer = self.timers.add(now + wait, Kind.JOIN, group.group_id)
        return answers

    def _complete(self, group: Group, now: float, now_ms: int) -> Decision:
        """The next generation: members are told of it, the leader of all of them. Nobody has an assignment yet."""
        for member in [each for each in group.members.values() if each.join_caller is None]:
            if member.instance_id is None:
                group.remove(member)
        if not group.members:
            return self._empty(group, now, now_ms)
        if not self._has_joined_leader(group):
            # Static members only, all silent: their sessions decide.
            group.join_timer = self.timers.add(
                now + max(group.rebalance_timeout, RETRY_SECONDS), Kind.JOIN, group.group_id
            )
            return NOTHING
        group.generation += 1
        group.protocol = group.choose_protocol()
        group.phase = Phase.COMPLETING
        group.is_first = False
        group.join_timer = -1
        group.sync_timer = self.timers.add(now + group.rebalance_timeout, Kind.SYNC, group.group_id)
        answers = []
        for member in group.members.values():
            member.awaits_sync = True
            member.assignment = b""
            caller = group.take_join(member)
            if caller is not None:
                member.is_new = False
                self._hear(group, member, now)
                answers.append(Answer(caller, _joined(group, member)))
        return Decision([], answers, group.written_end)

    def _has_joined_leader(self, group: Group) -> bool:
        leader = group.members.get(group.leader or "")
        if leader is not None and leader.join_caller is not None:
            return True
        chosen = next((member for member in group.members.values() if member.join_caller is not None), None)
        if chosen is not None:
            group.leader = chosen.member_id
        return chosen is not None

    def _empty(self, group: Group, now: float, now_ms: int) -> Decision:
        if not group.is_stored and not group.offsets and group.generation == 0:
            group.phase = Phase.EMPTY
            self._dispose(group)
            return NOTHING
        record = group.record({}, [], now_ms)
        assert isinstance(record.value, GroupMetadataValue)
        record.value.generation += 1
        record.value.protocol = record.value.leader = None
        group.is_first = False
        group.join_timer = self.timers.add(now + RETRY_SECONDS, Kind.JOIN, group.group_id)
        return Decision([record], [])

    # ------------------------------------------------------------------ SyncGroup

    def sync(self, request: SyncGroupRequest, caller: Caller, now: float, now_ms: int) -> Decision:
        """A member asks for its assignment; the leader brings them all."""
        try:
            group = self._group(request.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
            member = self._current(group, request.member_id, request.group_instance_id, request.generation_id)
            if request.protocol_type not in (None, group.protocol_type) or request.protocol_name not in (
                None,
                group.protocol,
            ):
                raise ApiError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.phase is Phase.PREPARING:
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
        except ApiError as error:
            return Decision([], [_sync_error(caller, error.code)])
        member.awaits_sync = False
        self._hear(group, member, now)
        if group.phase is Phase.STABLE:
            return Decision([], [Answer(caller, _synced(group, member.assignment))], group.written_end)
        answers = (
            [] if member.sync_caller is None else [_sync_error(member.sync_caller, ErrorCode.REBALANCE_IN_PROGRESS)]
        )
        member.sync_caller = caller
        if group.leader != member.member_id:
            return Decision([], answers)
        assigned = {each.member_id: each.assignment for each in request.assignments}
        for each in group.members.values():
            if each.sync_caller is not None:
                answers.append(Answer(each.sync_caller, _synced(group, assigned.get(each.member_id, b""))))
                each.sync_caller = None
        return Decision(
            [group.record(assigned, group.members.values(), now_ms)], answers, then=partial(self._hear_all, group, now)
        )

    def _hear_all(self, group: Group, now: float) -> None:
        for member in group.members.values():
            if not member.awaits_sync:
                self._hear(group, member, now)

    # ------------------------------------------------------------------ Heartbeat and LeaveGroup

    def heartbeat(self, request: HeartbeatRequest, now: float) -> ErrorCode:
        """A member lives; it learns whether it has to join again."""
        try:
            group = self._group(request.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
            if group.phase is Phase.EMPTY:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member = self._current(group, request.member_id, request.group_instance_id, request.generation_id)
        except ApiError as error:
            return error.code
        self._hear(group, member, now)
        return ErrorCode.REBALANCE_IN_PROGRESS if group.phase is Phase.PREPARING else ErrorCode.NONE

    def leave(self, request: LeaveGroupRequest, caller: Caller, now: float, now_ms: int) -> Decision:
        """Members go at once instead of when their sessions end; an operator may send several away."""
        try:
            group = self._group(request.group_id, ErrorCode.UNKNOWN_MEMBER_ID)
        except ApiError as error:
            return Decision([], [Answer(caller, LeaveGroupResponse(error_code=error.code))])
        answers: list[Answer] = []
        results = []
        changed = False
        for identity in request.members:
            code = self._leave(group, identity, answers)
            changed = changed or code is ErrorCode.NONE
            results.append(
                MemberResponse(
                    member_id=identity.member_id, group_instance_id=identity.group_instance_id, error_code=code
                )
            )
        decision = self._somebody_left(group, now, now_ms) if changed else NOTHING
        told = Answer(caller, LeaveGroupResponse(members=results))
        return decision._replace(answers=[*decision.answers, *answers, told])

    def _leave(self, group: Group, identity: MemberIdentity, answers: list[Answer]) -> ErrorCode:
        if identity.group_instance_id is None and group.pending.pop(identity.member_id, None) is not None:
            return ErrorCode.NONE
        member_id = identity.member_id
        if identity.group_instance_id is not None and not member_id:
            member_id = group.instances.get(identity.group_instance_id, "")
        try:
            member = self._member(group, member_id, identity.group_instance_id)
        except ApiError as error:
            return error.code
        answers.extend(self._remove(group, member))
        return ErrorCode.NONE

    def _remove(self, group: Group, member: Member) -> Iterator[Answer]:
        group.remove(member)
        if member.join_caller is not None:
            yield _join_error(member.join_caller, ErrorCode.UNKNOWN_MEMBER_ID, member.member_id)
        if member.sync_caller is not None:
            yield _sync_error(member.sync_caller, ErrorCode.UNKNOWN_MEMBER_ID)

    def _somebody_left(self, group: Group, now: float, now_ms: int) -> Decision:
        if group.phase is Phase.EMPTY:
            self._dispose(group)
            return NOTHING
        return self._rebalance(group, now, now_ms)

    # ------------------------------------------------------------------ time

    def time_passed(self, now: float, now_ms: int) -> Decision | None:
        """What the next timer that is due leads to; None when none is. Asked again until then."""
        while (due := self.timers.pop(now)) is not None:
            group = self.groups.get(due.group_id)
            decision = NOTHING if group is None else self._due(group, due, now, now_ms)
            if decision.records or decision.answers:
                return decision
        return None

    def _due(self, group: Group, due: Due, now: float, now_ms: int) -> Decision:
        match due.kind:
            case Kind.SESSION:
                return self._session_due(group, due, now, now_ms)
            case Kind.PENDING:
                if group.pending.get(due.member_id) == due.number:
                    del group.pending[due.member_id]
                    if group.phase is Phase.EMPTY:
                        self._dispose(group)
                    elif self._is_complete(group):
                        return self._complete(group, now, now_ms)
            case Kind.JOIN:
                if group.join_timer == due.number:
                    return self._join_due(group, now, now_ms)
            case Kind.SYNC:
                if group.sync_timer == due.number:
                    return self._sync_due(group, now, now_ms)
        return NOTHING

    def _session_due(self, group: Group, due: Due, now: float, now_ms: int) -> Decision:
        member = group.members.get(due.member_id)
        if member is None or member.timer != due.number:
            return NOTHING
        waits = (member.join_caller is not None and not member.is_new) or member.sync_caller is not None
        if member.deadline > now or waits:
            member.timer_at = float("inf")
            self._expect(group, member, max(member.deadline, now + RETRY_SECONDS if waits else 0.0))
            return NOTHING
        answers = list(self._remove(group, member))
        decision = self._somebody_left(group, now, now_ms)
        return decision._replace(answers=[*decision.answers, *answers])

    def _join_due(self, group: Group, now: float, now_ms: int) -> Decision:
        if group.is_first and group.grew and group.join_left > 0:
            wait = min(self.settings.initial_rebalance_delay, group.join_left)
            group.join_left -= wait
            group.grew = False
            group.join_timer = self.timers.add(now + wait, Kind.JOIN, group.group_id)
            return NOTHING
        return self._complete(group, now, now_ms)

    def _sync_due(self, group: Group, now: float, now_ms: int) -> Decision:
        """Whoever knows the generation and did not ask for its assignment is not coming."""
        group.sync_timer = -1
        missing = [member for member in group.members.values() if member.awaits_sync]
        if not missing:
            return NOTHING
        for member in missing:
            group.remove(member)
        return self._rebalance(group, now, now_ms)

    def _hear(self, group: Group, member: Member, now: float) -> None:
        self._expect(group, member, now + member.session_timeout_ms / 1000)

    def _expect(self, group: Group, member: Member, deadline: float) -> None:
        member.deadline = deadline
        if deadline < member.timer_at:
            member.timer = self.timers.add(deadline, Kind.SESSION, group.group_id, member.member_id)
            member.timer_at = deadline

    def refresh(self, now: float) -> None:
        """Sessions begin anew: after a load, and after a time in which nobody could be heard."""
        for group in self.groups.values():
            for member in group.members.values():
                member.timer_at = float("inf")
                self._hear(group, member, now)

    # ------------------------------------------------------------------ records

    def apply(self, group_id: str, value: GroupMetadataValue | None, end: int) -> None:
        """A record of a group, loaded or just appended: it says who the members are, and what they have."""
        group = self.groups.get(group_id)
        if value is None:
            if group is not None:
                self._forget(group, end)
            return
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        stored = {member.member_id for member in value.members}
        for member in [each for each in group.members.values() if each.member_id not in stored]:
            group.remove(member)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        for kept in value.members:
            known = group.members.get(kept.member_id)
            if known is None:
                known = Member(
                    kept.member_id,
                    kept.group_instance_id,
                    kept.client_id,
                    kept.client_host,
                    kept.rebalance_timeout if kept.rebalance_timeout >= 0 else kept.session_timeout,
                    kept.session_timeout,
                    [] if value.protocol is None else [(value.protocol, kept.subscription)],
                )
                known.is_new = False
                group.add(known)
            known.assignment = kept.assignment
        group.leader = value.leader
        group.phase = Phase.STABLE if group.members else Phase.EMPTY
        group.join_timer = -1
        group.is_first = False
        group.state_timestamp = value.current_state_timestamp
        group.is_stored = True
        group.written_end = end

    def _forget(self, group: Group, end: int) -> None:
        """The group is gone; offsets that have no tombstone of their own stay, as those of nobody."""
        del self.groups[group.group_id]
        if group.offsets:
            kept = self.groups[group.group_id] = Group(group.group_id)
            kept.offsets, kept.written_end = group.offsets, end

    # ------------------------------------------------------------------ who is who

    def _group(self, group_id: str, otherwise: ErrorCode) -> Group:
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(otherwise)
        return group

    def _member(self, group: Group, member_id: str, instance_id: str | None) -> Member:
        """A member by its id; one that another process of the same instance replaced is told so (KIP-345)."""
        if instance_id is not None:
            known = group.instances.get(instance_id)
            if known is None:
                raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                if self._rules.r14_fence_instances:
                    raise ApiError(ErrorCode.FENCED_INSTANCE_ID)
                member_id = known
        member = group.members.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def _current(self, group: Group, member_id: str, instance_id: str | None, generation: int) -> Member:
        """A member of the present generation."""
        member = self._member(group, member_id, instance_id)
        if generation != group.generation and self._rules.r14_fence_generations:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def check_commit(self, group: Group, member_id: str, instance_id: str | None, generation: int, now: float) -> None:
        """ApiError when somebody may not commit offsets: Kafka's rules. A member that may is heard."""
        if generation < 0 and group.phase is Phase.EMPTY:
            return
        if generation >= 0 or member_id or instance_id is not None:
            member = self._current(group, member_id, instance_id, generation)
            if group.phase is Phase.COMPLETING:
                raise ApiError(ErrorCode.REBALANCE_IN_PROGRESS)
            self._hear(group, member, now)
        elif group.phase is not Phase.EMPTY:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID)

    def _dispose(self, group: Group) -> None:
        if group.is_disposable and self.groups.get(group.group_id) is group:
            del self.groups[group.group_id]


def _new_member(request: JoinGroupRequest, who: Joiner, member_id: str) -> Member:
    return Member(
        member_id,
        request.group_instance_id,
        who.client_id,
        who.client_host,
        _rebalance_timeout(request),
        request.session_timeout_ms,
        [(protocol.name, protocol.metadata) for protocol in request.protocols],
    )


def _rebalance_timeout(request: JoinGroupRequest) -> int:
    """Version 0 has one time-out for both."""
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms


def _joined(group: Group, member: Member) -> JoinGroupResponse:
    leads = group.leader == member.member_id
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol,
        leader=group.leader or "",
        member_id=member.member_id,
        members=_members(group, list(group.members.values())) if leads else [],
    )


def _members(group: Group, members: list[Member]) -> list[JoinGroupResponseMember]:
    return [
        JoinGroupResponseMember(
            member_id=member.member_id, group_instance_id=member.instance_id, metadata=group.metadata_of(member)
        )
        for member in members
    ]


def _synced(group: Group, assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type=group.protocol_type, protocol_name=group.protocol, assignment=assignment)


def _sync_error(caller: Caller, code: ErrorCode) -> Answer:
    return Answer(caller, SyncGroupResponse(error_code=code))


def _join_error(caller: Caller, code: ErrorCode, member_id: str) -> Answer:
    return Answer(caller, JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id))


def _refused(caller: Caller, code: ErrorCode, member_id: str) -> Decision:
    return Decision([], [_join_error(caller, code, member_id)])
