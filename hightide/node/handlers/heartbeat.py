"""Heartbeat (12), versions 0-4: a member lives, and learns whether it has to join again.

Version 3 adds static members. Answered at once: nothing is stored, and a member knows of nothing uncommitted. While the
group is being loaded every member is told that all is well, as Kafka does: its session begins anew afterwards, and some
clients (aiokafka) give up when they hear of the load.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: HeartbeatRequest, request: "Request") -> HeartbeatResponse:
    """Extend a session."""
    try:
        if not message.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = node.coordinators.shard(message.group_id)
    except ApiError as error:
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error.code)
    return HeartbeatResponse(error_code=shard.heartbeat(message))
