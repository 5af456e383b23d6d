"""AlterConfigs (33), versions 0-2: replace all settings of topics and brokers.

Kept for old clients: what is not named is reset. `IncrementalAlterConfigs` is the better way.
"""

from typing import TYPE_CHECKING

from hightide.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: AlterConfigsRequest, request: "Request") -> AlterConfigsResponse:
    """Replace what passes the checks; in effect when this is answered."""
    reply = await node.controller_link.call(message, AlterConfigsResponse, version=request.version)
    await node.assignments.settled()
    return reply
