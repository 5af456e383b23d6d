"""CreatePartitions (37), versions 0-3: more partitions for a topic (C2).

The count goes on from the last one; keys then map to other partitions, which the docs say.
"""

from typing import TYPE_CHECKING

from hightide.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: CreatePartitionsRequest, request: "Request") -> CreatePartitionsResponse:
    """Add what passes the checks."""
    reply = await node.controller_link.call(message, CreatePartitionsResponse, version=request.version)
    await node.assignments.settled()
    return reply
