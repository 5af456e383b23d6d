"""DeleteGroups (42), versions 0-2: groups without members, and everything they committed."""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: DeleteGroupsRequest, request: "Request") -> DeleteGroupsResponse:
    """One result per group, each told when it is committed."""
    return DeleteGroupsResponse(results=[await _delete(node, group_id) for group_id in message.groups_names])


async def _delete(node: "Node", group_id: str) -> DeletableGroupResult:
    try:
        shard = node.coordinators.shard(group_id)
        await shard.committed(shard.append(shard.machine.delete_group(group_id)))
    except ApiError as error:
        return DeletableGroupResult(group_id=group_id, error_code=error.code)
    return DeletableGroupResult(group_id=group_id, error_code=ErrorCode.NONE)
