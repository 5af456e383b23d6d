"""DeleteTopics (20), versions 1-6: topics go, by name or (version 6) by id.

Answered when the records are committed and the files are renamed: the name is free again.
"""

from typing import TYPE_CHECKING

from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: DeleteTopicsRequest, request: "Request") -> DeleteTopicsResponse:
    """Delete what exists."""
    reply = await node.controller_link.call(message, DeleteTopicsResponse, version=request.version)
    await node.assignments.settled()
    return reply
