"""UnregisterBroker (64), version 0: a broker is gone for good."""

from typing import TYPE_CHECKING

from hightide.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: UnregisterBrokerRequest, request: "Request") -> UnregisterBrokerResponse:
    """Ask the active controller."""
    return await node.controller_link.call(message, UnregisterBrokerResponse, version=request.version)
