"""CreateTopics (19), versions 2-7: new topics, each with its own result.

Every check and its error is in `metadata.topic_creation`. Answered when the records are committed and the partitions
are open on this node, so that the creator can use them at once.
"""

from typing import TYPE_CHECKING

from hightide.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: CreateTopicsRequest, request: "Request") -> CreateTopicsResponse:
    """Create what passes the checks."""
    return await node.create_topics(message)
