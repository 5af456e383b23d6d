"""IncrementalAlterConfigs (44), versions 0-1: change settings of topics and brokers one by one.

Sets, deletes, appends to and subtracts from; resources stand alone, a wrong one does not stop the others.
"""

from typing import TYPE_CHECKING

from hightide.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(
    node: "Node", message: IncrementalAlterConfigsRequest, request: "Request"
) -> IncrementalAlterConfigsResponse:
    """Change what passes the checks; in effect when this is answered."""
    reply = await node.controller_link.call(message, IncrementalAlterConfigsResponse, version=request.version)
    await node.assignments.settled()
    return reply
