"""The classic group protocol, transition by transition."""

import pytest

from hightide.coordination.classic_group import Phase
from hightide.coordination.settings import GroupSettings
from hightide.errors import ErrorCode
from hightide.rules import ALL_ON
from hightide.wire.messages.leave_group import MemberIdentity
from tests.unit.coordination.desks import GROUP, Desk


def test_a_member_is_given_an_id_first() -> None:
    desk = Desk()
    told = desk.joined(desk.join())
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("client-")
    assert desk.phase == Phase.EMPTY
    joined = desk.joined(desk.join(told.member_id))
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, told.member_id)
    assert [(member.member_id, member.metadata) for member in joined.members] == [(told.member_id, b"topics")]
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")


def test_old_versions_join_at_once() -> None:
    desk = Desk()
    assert desk.joined(desk.join(version=3)).generation_id == 1


def test_an_id_that_is_not_used_is_forgotten() -> None:
    desk = Desk()
    desk.join()
    desk.pass_time(9.9)
    assert GROUP in desk.machine.groups
    desk.pass_time(0.2)
    assert desk.machine.groups == {}
    assert desk.log == []


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        ({"session": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"group": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"kind": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": {f"p{number}": b"" for number in range(101)}}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "somebody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_not_join_leaves_no_trace(wish: dict[str, object], code: ErrorCode) -> None:
    desk = Desk()
    assert desk.joined(desk.join(**wish)).error_code == code  # type: ignore[arg-type]
    assert desk.machine.groups == {}


def test_the_first_rebalance_is_put_off_for_latecomers() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay=3.0))
    one = desk.enter()
    desk.pass_time(2.9)
    two = desk.enter()
    desk.pass_time(0.2)
    assert not {one, two} & desk.answers.keys(), "somebody came: three seconds more"
    desk.pass_time(2.9)
    assert len(desk.joined(one).members) == 2
    assert desk.joined(two).generation_id == 1


def test_it_is_put_off_no_longer_than_the_rebalance_timeout() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay=3.0))
    one = desk.enter(rebalance=7_000)
    for _ in range(4):
        desk.pass_time(1.9)
        desk.enter(rebalance=7_000)
    assert desk.joined(one).generation_id == 1


def test_everybody_must_join_again_before_the_next_generation() -> None:
    desk = Desk()
    (one,) = desk.stable()
    two = desk.enter()
    assert two not in desk.answers
    assert desk.beat(one) is ErrorCode.REBALANCE_IN_PROGRESS
    again = desk.join(one)
    assert desk.joined(again).generation_id == desk.joined(two).generation_id == 2
    assert len(desk.joined(again).members) == 2
    assert desk.joined(two).members == [], "the leader's alone"


def test_whoever_does_not_join_again_in_time_is_out() -> None:
    desk = Desk()
    one, two = desk.stable(2, rebalance=20_000, session=30_000)
    joining = desk.join(one, rebalance=20_000, session=30_000, protocols={"range": b"more"})
    desk.pass_time(19.9)
    assert joining not in desk.answers
    desk.pass_time(0.2)
    assert [member.member_id for member in desk.joined(joining).members] == [one]
    assert desk.beat(two) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_out_after_its_session() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    generation = desk.group.generation
    for _ in range(4):
        desk.pass_time(3)
        desk.beat(one)
    assert desk.beat(one) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.joined(desk.join(one)).generation_id == generation + 1
    assert two not in desk.group.members


def test_a_member_that_waits_for_others_is_not_silent() -> None:
    desk = Desk()
    one, _two = desk.stable(2, rebalance=60_000)
    waiting = desk.join(one, protocols={"range": b"more"})
    for _ in range(5):
        desk.pass_time(4)
        desk.beat(_two)
    assert one in desk.group.members
    assert waiting not in desk.answers


def test_followers_wait_for_the_leader_and_everybody_gets_its_own() -> None:
    desk = Desk()
    numbers = [desk.enter(), desk.enter()]
    one = desk.joined(numbers[0]).member_id
    again = desk.join(one)
    two = desk.joined(numbers[1]).member_id
    waiting = desk.sync(two)
    assert waiting not in desk.answers
    leading = desk.sync(one, {one: b"1", two: b"2"})
    assert desk.synced(leading).assignment == b"1"
    assert desk.synced(waiting).assignment == b"2"
    assert desk.phase == Phase.STABLE
    assert desk.joined(again).generation_id == 2
    assert desk.synced(desk.sync(two)).assignment == b"2", "told again"


def test_whoever_the_leader_forgot_has_nothing() -> None:
    desk = Desk()
    (one,) = [desk.joined(desk.enter()).member_id]
    assert desk.synced(desk.sync(one, {"stranger": b"x"})).assignment == b""
    assert list(desk.group.members) == [one]


def test_a_member_that_asks_for_no_assignment_is_out() -> None:
    desk = Desk()
    one, two = desk.stable(2, rebalance=20_000, session=60_000)
    desk.join(one, rebalance=20_000, session=60_000)
    desk.join(two, rebalance=20_000, session=60_000)
    desk.sync(one, {one: b"1"})
    desk.pass_time(20.1)
    assert two not in desk.group.members
    assert desk.beat(one) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_rebalance_ends_the_wait_for_an_assignment() -> None:
    desk = Desk()
    numbers = [desk.enter(), desk.enter()]
    one = desk.joined(numbers[0]).member_id
    desk.join(one)
    two = desk.joined(numbers[1]).member_id
    waiting = desk.sync(two)
    desk.enter()
    assert desk.synced(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.synced(desk.sync(one, {})).error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_old_generations_are_fenced() -> None:
    desk = Desk()
    (one,) = desk.stable()
    old = desk.group.generation - 1
    assert desk.beat(one, generation=old) is ErrorCode.ILLEGAL_GENERATION
    assert desk.synced(desk.sync(one, generation=old)).error_code == ErrorCode.ILLEGAL_GENERATION
    assert desk.commit(1, one, old) is ErrorCode.ILLEGAL_GENERATION
    assert desk.synced(desk.sync(one, protocol="other")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_without_the_rule_a_former_owner_commits() -> None:
    desk = Desk(rules=ALL_ON.without("r14_fence_generations"))
    (one,) = desk.stable()
    assert desk.commit(1, one, desk.group.generation - 1) is ErrorCode.NONE


def test_protocols_are_chosen_by_votes() -> None:
    desk = Desk()
    desk.enter(protocols={"a": b"", "b": b"", "c": b""})
    desk.enter(protocols={"c": b"", "b": b""})
    refused = desk.joined(desk.join(protocols={"a": b""}))
    assert refused.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.joined(desk.join(kind="connect")).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    last = desk.enter(protocols={"c": b"", "a": b"", "b": b""})
    leader = desk.group.leader
    assert leader is not None
    desk.join(leader, protocols={"a": b"", "b": b"", "c": b""})
    assert desk.joined(last).protocol_name == "c"


def test_any_kind_of_members_with_any_metadata() -> None:
    desk = Desk()
    told = desk.joined(desk.enter(kind="connect", protocols={"sessioned": b"\x00\xff"}))
    assert (told.protocol_type, told.protocol_name) == ("connect", "sessioned")
    assert told.members[0].metadata == b"\x00\xff"


def test_a_follower_that_joins_again_as_it_was_disturbs_nobody() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    generation = desk.group.generation
    assert desk.joined(desk.join(two)).generation_id == generation
    assert desk.phase == Phase.STABLE
    desk.join(two, protocols={"range": b"other topics"})
    assert desk.phase == Phase.PREPARING
    assert desk.beat(one) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_leader_that_joins_again_wants_a_rebalance() -> None:
    desk = Desk()
    one, _ = desk.stable(2)
    desk.join(one)
    assert desk.phase == Phase.PREPARING


def test_a_repeated_join_is_told_the_generation_again() -> None:
    desk = Desk()
    one = desk.joined(desk.enter()).member_id
    again = desk.joined(desk.join(one))
    assert (again.generation_id, len(again.members)) == (1, 1)
    assert desk.phase == Phase.COMPLETING


def test_a_join_over_a_new_connection_replaces_the_old_one() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    first = desk.join(two, protocols={"range": b"more"})
    second = desk.join(two, protocols={"range": b"more"})
    assert desk.joined(first).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second not in desk.answers
    desk.join(one)
    assert desk.joined(second).error_code == ErrorCode.NONE


def test_leaving_is_noticed_at_once() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    left = desk.leave(two, "stranger")
    assert [(each.member_id, each.error_code) for each in left.members] == [
        (two, ErrorCode.NONE),
        ("stranger", ErrorCode.UNKNOWN_MEMBER_ID),
    ]
    assert desk.beat(one) is ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.beat(two) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_leaves_an_empty_group_behind() -> None:
    desk = Desk()
    (one,) = desk.stable()
    generation = desk.group.generation
    desk.leave(one)
    assert (desk.group.phase, desk.group.generation) == (Phase.EMPTY, generation + 1)
    again = desk.reloaded()
    assert (again.group.phase, again.group.generation, again.group.members) == (Phase.EMPTY, generation + 1, {})
    assert again.beat(one) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_can_be_given_back() -> None:
    desk = Desk()
    told = desk.joined(desk.join())
    assert desk.leave(told.member_id).members[0].error_code == ErrorCode.NONE
    assert desk.machine.groups == {}


def test_leaving_nobodys_group() -> None:
    assert Desk().leave("x").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_waiting_member_that_is_sent_away_is_told() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    waiting = desk.join(two, protocols={"range": b"more"})
    desk.leave(two)
    assert desk.joined(waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.joined(desk.join(one)).error_code == ErrorCode.NONE


def test_a_group_has_a_maximum_size() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay=0.0, max_size=2))
    one, two = desk.stable(2)
    assert desk.joined(desk.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert desk.joined(desk.join(two)).error_code == ErrorCode.NONE
    desk.leave(two)
    desk.join(one)
    assert desk.joined(desk.join()).error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert desk.joined(desk.join()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED, "ids that wait count too"


def test_a_group_that_was_made_smaller_shrinks_with_its_next_rebalance() -> None:
    desk = Desk()
    members = desk.stable(3)
    desk.machine.configure(GroupSettings(initial_rebalance_delay=0.0, max_size=2))
    told = [desk.join(member) for member in members]
    assert desk.joined(told[2]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_there_is_a_limit_to_groups() -> None:
    desk = Desk(GroupSettings(initial_rebalance_delay=0.0, groups_max=1))
    desk.stable()
    assert desk.joined(desk.join(group="other")).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert desk.commit(1, group="other") is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_there_is_a_limit_to_what_members_say() -> None:
    desk = Desk()
    huge = {"range": bytes(9 * 1024 * 1024)}
    desk.enter(protocols=huge)
    assert desk.joined(desk.join(protocols=huge)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# ------------------------------------------------------------------ static members


def with_static(rules: object = None) -> tuple[Desk, str, str]:
    """A stable group of a dynamic leader and the static member "s": their ids."""
    desk = Desk() if rules is None else Desk(rules=rules)  # type: ignore[arg-type]
    leader = desk.joined(desk.enter()).member_id
    joining = desk.join(instance="s")
    desk.join(leader)
    static = desk.joined(joining).member_id
    desk.sync(static, instance="s")
    desk.sync(leader, {leader: b"1", static: b"2"})
    return desk, leader, static


def test_a_static_member_needs_no_id_first() -> None:
    desk, _leader, static = with_static()
    assert static.startswith("s-")
    assert desk.beat(static, instance="s") is ErrorCode.NONE


def test_its_new_process_takes_its_place_and_nobody_notices() -> None:
    desk, leader, old = with_static()
    generation = desk.group.generation
    told = desk.joined(desk.join(instance="s"))
    assert (told.error_code, told.generation_id, told.leader) == (ErrorCode.NONE, generation, leader)
    assert told.member_id != old
    assert desk.synced(desk.sync(told.member_id, instance="s")).assignment == b"2"
    assert desk.beat(leader) is ErrorCode.NONE
    assert desk.beat(old, instance="s") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.commit(1, old, generation, instance="s") is ErrorCode.FENCED_INSTANCE_ID
    assert desk.synced(desk.sync(old, instance="s")).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.joined(desk.join(old, instance="s")).error_code == ErrorCode.FENCED_INSTANCE_ID
    again = desk.reloaded()
    assert again.beat(told.member_id, instance="s") is ErrorCode.NONE, "its id is stored"
    assert again.beat(old, instance="s") is ErrorCode.FENCED_INSTANCE_ID


def test_the_place_is_kept_when_it_can_not_be_stored() -> None:
    desk, _, old = with_static()
    desk.refuses = True
    desk.join(instance="s")
    assert desk.beat(old, instance="s") is ErrorCode.NONE


def test_without_the_rule_the_new_id_is_forgotten() -> None:
    desk, _, old = with_static(ALL_ON.without("r14_static_changes_are_stored"))
    new = desk.joined(desk.join(instance="s")).member_id
    assert desk.beat(new, instance="s") is ErrorCode.NONE
    again = desk.reloaded()
    assert again.beat(old, instance="s") is ErrorCode.NONE, "the old process is back in its place"


def test_without_the_rule_both_processes_stay() -> None:
    desk, _, old = with_static(ALL_ON.without("r14_fence_instances"))
    new = desk.joined(desk.join(instance="s")).member_id
    assert desk.beat(new, instance="s") is desk.beat(old, instance="s") is ErrorCode.NONE


def test_with_another_protocol_there_is_a_rebalance() -> None:
    desk, leader, _ = with_static()
    desk.join(instance="s", protocols={"range": b"", "other": b""})
    assert desk.beat(leader) is ErrorCode.NONE, "the chosen one stays"
    lone = Desk()
    lone.sync(lone.joined(lone.join(instance="s", protocols={"a": b"", "b": b""})).member_id, {})
    told = lone.join(instance="s", protocols={"b": b"", "a": b""})
    assert lone.joined(told).generation_id == 2, "its favourite is another now, and it is alone"
    assert lone.joined(told).protocol_name == "b"


def test_a_static_leader_is_told_to_leave_the_assignment_alone() -> None:
    desk = Desk()
    old = desk.joined(desk.join(instance="s")).member_id
    desk.sync(old, {old: b"1"}, instance="s")
    told = desk.joined(desk.join(instance="s"))
    assert told.skip_assignment
    assert told.leader == told.member_id
    assert len(told.members) == 1
    older = desk.joined(desk.join(instance="s", version=8))
    assert not older.skip_assignment
    assert older.leader == told.member_id != older.member_id


def test_a_new_process_during_a_rebalance_joins_it() -> None:
    desk, leader, old = with_static()
    waiting = desk.join(old, instance="s", protocols={"range": b"more"})
    new = desk.join(instance="s")
    assert desk.joined(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    desk.pass_time(9)
    desk.beat(leader)
    desk.pass_time(9)
    desk.join(leader)
    assert desk.joined(new).error_code == ErrorCode.NONE, "it waits longer than a session"


def test_a_new_process_before_the_assignment_starts_over() -> None:
    desk, leader, old = with_static()
    desk.join(leader)
    desk.join(old, instance="s")
    waiting = desk.sync(old, instance="s")
    new = desk.join(instance="s")
    assert desk.synced(waiting).error_code == ErrorCode.FENCED_INSTANCE_ID
    assert desk.beat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(leader)
    assert desk.joined(new).error_code == ErrorCode.NONE


def test_a_static_member_is_waited_for_until_its_session_ends() -> None:
    desk = Desk()
    leader = desk.joined(desk.enter(rebalance=5_000)).member_id
    joining = desk.join(instance="s", session=30_000, rebalance=5_000)
    desk.join(leader, rebalance=5_000)
    static = desk.joined(joining).member_id
    desk.sync(static, instance="s")
    desk.sync(leader, {leader: b"1", static: b"2"})
    desk.beat(static, instance="s")
    again = desk.join(leader, rebalance=5_000)
    desk.pass_time(5.1)
    assert {member.member_id for member in desk.joined(again).members} == {leader, static}, "it keeps its share"


def test_when_only_silent_static_members_are_left_their_sessions_decide() -> None:
    desk, leader, static = with_static()
    desk.leave(leader)
    desk.pass_time(61)
    assert desk.phase == Phase.EMPTY
    assert static not in desk.group.members


def test_static_members_leave_by_their_instance() -> None:
    desk, _, static = with_static()
    told = desk.leave(
        MemberIdentity(member_id="", group_instance_id="nobody"),
        MemberIdentity(member_id="other", group_instance_id="s"),
        MemberIdentity(member_id="", group_instance_id="s"),
    )
    assert [each.error_code for each in told.members] == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NONE,
    ]
    assert static not in desk.group.members


# ------------------------------------------------------------------ failures


def test_an_assignment_that_can_not_be_stored_is_told_to_nobody() -> None:
    desk = Desk()
    one = desk.joined(desk.enter()).member_id
    desk.refuses = True
    desk.sync(one, {one: b"1"})
    assert desk.phase == Phase.COMPLETING
    desk.refuses = False
    assert desk.synced(desk.sync(one, {one: b"1"})).assignment == b"1"


def test_an_empty_group_is_stored_when_that_is_possible() -> None:
    desk = Desk()
    desk.stable()
    desk.refuses = True
    desk.pass_time(11)
    assert desk.phase == Phase.PREPARING
    desk.refuses = False
    desk.pass_time(1.1)
    assert desk.phase == Phase.EMPTY


def test_after_a_load_every_member_has_a_whole_session() -> None:
    desk = Desk()
    (one,) = desk.stable()
    desk.pass_time(9)
    again = desk.reloaded()
    again.pass_time(9.9)
    assert again.beat(one) is ErrorCode.NONE
    again.pass_time(10.1)
    assert again.beat(one) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_loaded_group_goes_on() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    again = desk.reloaded()
    assert again.group.generation == desk.group.generation
    assert again.synced(again.sync(two)).assignment == b"1"
    assert again.beat(one) is ErrorCode.NONE
    assert again.joined(again.join(two)).generation_id == desk.group.generation
    assert again.commit(5, two, desk.group.generation) is ErrorCode.NONE
