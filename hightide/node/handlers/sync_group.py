"""SyncGroup (14), versions 0-5: the leader brings the assignments, everybody gets its own.

Version 3 adds static members, version 5 the protocol, which is checked when it is there. Answered when the assignments
are committed; a follower waits for the leader until then. While the group is being loaded, the generation that the
member knows of is gone if it had no assignments: REBALANCE_IN_PROGRESS lets it join again, as Kafka does.
"""

from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.node.group_answers import Asked
from hightide.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request
    from hightide.wire.message import ApiMessage


def handle(node: "Node", message: SyncGroupRequest, request: "Request") -> "ApiMessage | None":
    """Wait for the assignment."""
    asked = Asked(request, lambda code: SyncGroupResponse(error_code=code))
    try:
        if not message.group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        shard = node.coordinators.shard(message.group_id)
    except ApiError as error:
        is_loading = error.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        asked.fail(ErrorCode.REBALANCE_IN_PROGRESS if is_loading else error.code)
        return asked.park()
    shard.decide(lambda machine, now, now_ms: machine.classic.sync(message, asked, now, now_ms))
    return asked.park()
