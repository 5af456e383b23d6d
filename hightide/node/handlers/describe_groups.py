"""DescribeGroups (15), versions 0-6: state, protocol and members of groups.

Version 4 shows static members; a group that does not exist is Dead, from version 6 on with an error.
"""

from typing import TYPE_CHECKING

from hightide.coordination.descriptions import describe_group
from hightide.errors import ApiError
from hightide.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: DescribeGroupsRequest, request: "Request") -> DescribeGroupsResponse:
    """One answer per group."""
    return DescribeGroupsResponse(groups=[_describe(node, group_id, request.version) for group_id in message.groups])


def _describe(node: "Node", group_id: str, version: int) -> DescribedGroup:
    try:
        shard = node.coordinators.shard(group_id)
    except ApiError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    return describe_group(group_id, shard.machine.groups.get(group_id), version)
