"""What is told about groups: ListGroups and DescribeGroups."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from hightide.coordination.classic_group import Group, Phase
from hightide.errors import ErrorCode
from hightide.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from hightide.wire.messages.list_groups import ListedGroup

CLASSIC: Final = "classic"
DEAD: Final = "Dead"
NOT_FOUND_FROM: Final = 6
"""DescribeGroups' version from which on a missing group is an error; before, it is Dead."""


def list_groups(groups: Iterable[Group], states: Collection[str], types: Collection[str]) -> Iterator[ListedGroup]:
    """Groups in one of the states and of one of the types, whatever their case; no states or types means all."""
    wanted_states = {state.lower() for state in states}
    if types and CLASSIC not in {kind.lower() for kind in types}:
        return
    for group in groups:
        if not wanted_states or group.phase.value.lower() in wanted_states:
            yield ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.phase.value,
                group_type=CLASSIC,
            )


def describe_group(group_id: str, group: Group | None, version: int) -> DescribedGroup:
    """A group with its members; metadata and assignments are shown when they belong together."""
    if group is None:
        missing = version >= NOT_FOUND_FROM
        return DescribedGroup(
            group_id=group_id,
            group_state=DEAD,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND if missing else ErrorCode.NONE,
            error_message=f"Group {group_id} not found." if missing else None,
        )
    is_stable = group.phase is Phase.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.phase.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=group.metadata_of(member) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )
