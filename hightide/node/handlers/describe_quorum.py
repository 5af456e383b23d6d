"""DescribeQuorum (55), versions 0-2: the metadata quorum, its leader, and how far every voter and observer is."""

from typing import TYPE_CHECKING

from hightide.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: DescribeQuorumRequest, request: "Request") -> DescribeQuorumResponse:
    """Ask the active controller."""
    return await node.controller_link.call(message, DescribeQuorumResponse, version=request.version)
