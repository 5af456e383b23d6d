"""FindCoordinator (10), versions 0-6: who coordinates a group or a transactional id.

There is no coordinator yet, and COORDINATOR_NOT_AVAILABLE says so in the one way that every client understands: it asks
again later. The API is served all the same because librdkafka compresses with lz4 only where it is (its feature table
takes FindCoordinator for the sign of a broker with the right lz4 framing); consumers that assign their partitions
themselves ignore the answer.
"""

from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.types import NO_BROKER
from hightide.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

BATCHED_FROM = 4
MESSAGE = "this broker serves no consumer groups or transactions"


def handle(node: "Node", message: FindCoordinatorRequest, request: "Request") -> FindCoordinatorResponse:
    """The same answer for every key."""
    code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.version < BATCHED_FROM:
        return FindCoordinatorResponse(error_code=code, error_message=MESSAGE, node_id=NO_BROKER, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=NO_BROKER, host="", port=-1, error_code=code, error_message=MESSAGE)
            for key in message.coordinator_keys
        ]
    )
