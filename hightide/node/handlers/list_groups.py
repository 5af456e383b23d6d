"""ListGroups (16), versions 0-5: the groups that this broker coordinates.

Version 4 filters by state, version 5 by type: all groups here are classic. While some are being loaded the list would
be short, and COORDINATOR_LOAD_IN_PROGRESS says so.
"""

from typing import TYPE_CHECKING

from hightide.coordination.descriptions import list_groups
from hightide.errors import ApiError
from hightide.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: ListGroupsRequest, request: "Request") -> ListGroupsResponse:
    """All of them."""
    groups: list[ListedGroup] = []
    try:
        for shard in node.coordinators:
            shard.check()
            groups += list_groups(shard.machine.groups.values(), message.states_filter, message.types_filter)
    except ApiError as error:
        return ListGroupsResponse(error_code=error.code)
    return ListGroupsResponse(groups=groups)
