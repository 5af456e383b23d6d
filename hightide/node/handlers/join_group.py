"""JoinGroup (11), versions 0-9: become a member of the next generation of a group.

Version 0 has one time-out for session and rebalance, version 4 hands out a member's id first (KIP-394), version 5 adds
static members (KIP-345), version 9 tells a static leader to leave the assignment as it is (KIP-814). The answer waits
until everybody has joined or the rebalance time-out is over. Protocol type and metadata are the members' own.
"""

from functools import partial
from typing import TYPE_CHECKING

from hightide.coordination.classic_groups import Joiner
from hightide.errors import ApiError, ErrorCode
from hightide.node.group_answers import Asked
from hightide.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request
    from hightide.wire.message import ApiMessage

NULL_PROTOCOL_FROM = 7


def handle(node: "Node", message: JoinGroupRequest, request: "Request") -> "ApiMessage | None":
    """Join; mostly answered later."""
    finish = None if request.version >= NULL_PROTOCOL_FROM else _without_nulls
    asked = Asked(request, partial(_refused, message.member_id), finish)
    try:
        if not message.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = node.coordinators.shard(message.group_id)
    except ApiError as error:
        asked.fail(error.code)
        return asked.park()
    token = node.entropy.token(16).hex()
    token = "-".join((token[:8], token[8:12], token[12:16], token[16:20], token[20:]))
    who = Joiner(asked, request.version, request.client_id, f"/{request.session.host}", token)
    shard.decide(lambda machine, now, now_ms: machine.classic.join(message, who, now, now_ms))
    return asked.park()


def _refused(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None, member_id=member_id)


def _without_nulls(message: JoinGroupResponse) -> JoinGroupResponse:
    message.protocol_name = message.protocol_name or ""
    return message
