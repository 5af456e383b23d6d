"""Whatever a controller is asked over its own listener: registrations, heartbeats, in-sync changes, admin commands.

Versions are Kafka's of each API. On a node that is not the active controller the connection is closed, after which the
asker looks for the active one again; `controller_link` is the other end.
"""

from typing import TYPE_CHECKING

from hightide.node import controller_commands
from hightide.wire.message import ApiMessage

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: ApiMessage, request: "Request") -> ApiMessage:
    """Carry it out here."""
    return await controller_commands.run(node, message, request.version)
