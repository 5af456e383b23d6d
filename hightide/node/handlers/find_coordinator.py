"""FindCoordinator (10), versions 0-6: who coordinates a group or a transactional id.

Version 1 adds key types, version 4 several keys at once. The topic of the groups is created when it is missing; until
it is there, and while its partition has no leader, COORDINATOR_NOT_AVAILABLE tells a client to ask again. There are no
coordinators of transactions and share groups yet, and the same answer says so.
"""

from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.types import NO_BROKER
from hightide.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

BATCHED_FROM = 4
GROUP = 0
NOBODY_YET = "the coordinator is not available now"
NOT_SERVED = "this broker coordinates groups only"


def handle(node: "Node", message: FindCoordinatorRequest, request: "Request") -> FindCoordinatorResponse:
    """One answer per key."""
    keys = [message.key] if request.version < BATCHED_FROM else message.coordinator_keys
    found = [_find(node, key, message.key_type, request) for key in keys]
    if request.version >= BATCHED_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(node: "Node", key: str, key_type: int, request: "Request") -> Coordinator:
    broker = node.image.brokers.get(node.coordinators.find(key)) if key_type == GROUP else None
    endpoint = None if broker is None else broker.endpoint(request.session.listener_name)
    if broker is None or endpoint is None:
        return Coordinator(
            key=key,
            node_id=NO_BROKER,
            host="",
            port=-1,
            error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
            error_message=NOBODY_YET if key_type == GROUP else NOT_SERVED,
        )
    return Coordinator(key=key, node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, error_message=None)
