"""What is told about groups."""

from hightide.coordination.descriptions import describe_group, list_groups
from hightide.errors import ErrorCode
from tests.unit.coordination.desks import GROUP, Desk


def listed(desk: Desk, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, str, str, str]]:
    return [
        (each.group_id, each.protocol_type, each.group_state, each.group_type)
        for each in list_groups(desk.machine.groups.values(), states, types)
    ]


def test_lists_are_filtered_whatever_the_case() -> None:
    desk = Desk()
    desk.stable()
    desk.commit(1, group="simple")
    both = [("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")]
    assert listed(desk) == both
    assert listed(desk, states=("STABLE",)) == both[:1]
    assert listed(desk, types=("Classic",)) == both
    assert listed(desk, types=("consumer",)) == []
    assert listed(desk, states=("empty",), types=("classic", "share")) == both[1:]


def test_a_stable_group_is_described_with_its_members() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    told = describe_group(GROUP, desk.group, 6)
    assert (told.group_state, told.protocol_type, told.protocol_data) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.client_id, each.client_host) for each in told.members] == [
        (one, "client", "/127.0.0.1"),
        (two, "client", "/127.0.0.1"),
    ]
    assert [(each.member_metadata, each.member_assignment) for each in told.members] == [
        (b"topics", b"0"),
        (b"topics", b"1"),
    ]
    desk.join(one)
    told = describe_group(GROUP, desk.group, 6)
    assert (told.group_state, told.protocol_data) == ("PreparingRebalance", "")
    assert {each.member_assignment for each in told.members} == {b""}


def test_a_missing_group_is_dead_and_lately_an_error() -> None:
    assert (describe_group("x", None, 5).group_state, describe_group("x", None, 5).error_code) == ("Dead", 0)
    assert describe_group("x", None, 6).error_code == ErrorCode.GROUP_ID_NOT_FOUND
