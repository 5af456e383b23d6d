"""ElectLeaders (43), versions 0-2: an operator asks for preferred leaders, or for any at the price of records (R7)."""

from typing import TYPE_CHECKING

from hightide.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: ElectLeadersRequest, request: "Request") -> ElectLeadersResponse:
    """Ask the active controller."""
    return await node.controller_link.call(message, ElectLeadersResponse, version=request.version)
