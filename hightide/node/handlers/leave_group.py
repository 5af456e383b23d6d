"""LeaveGroup (13), versions 0-5: members go at once instead of when their sessions end.

Up to version 2 one member leaves; version 3 lets an operator send several away, static ones by their instance.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.node.group_answers import Asked
from hightide.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request
    from hightide.wire.message import ApiMessage

BATCHED_FROM = 3


def handle(node: "Node", message: LeaveGroupRequest, request: "Request") -> "ApiMessage | None":
    """Leave."""
    is_batched = request.version >= BATCHED_FROM
    if not is_batched:
        message.members = [MemberIdentity(member_id=message.member_id)]
    asked = Asked(request, lambda code: LeaveGroupResponse(error_code=code), None if is_batched else _of_one)
    try:
        if not message.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = node.coordinators.shard(message.group_id)
    except ApiError as error:
        asked.fail(error.code)
        return asked.park()
    shard.decide(lambda machine, now, now_ms: machine.classic.leave(message, asked, now, now_ms))
    return asked.park()


def _of_one(message: LeaveGroupResponse) -> LeaveGroupResponse:
    if message.error_code or not message.members:
        return LeaveGroupResponse(error_code=message.error_code)
    return LeaveGroupResponse(error_code=message.members[0].error_code)
