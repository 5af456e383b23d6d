"""BeginQuorumEpoch (53), versions 0-1: a new leader of the quorum announces itself to a voter."""

import asyncio
from typing import TYPE_CHECKING

from hightide.node import quorum_messages as messages
from hightide.replication.quorum_effects import AnswerBeginEpoch
from hightide.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: BeginQuorumEpochRequest, request: "Request") -> BeginQuorumEpochResponse:
    """Follow it, or say who leads in a newer epoch."""
    verdict: asyncio.Future[AnswerBeginEpoch] = asyncio.get_running_loop().create_future()
    node.metadata.quorum.tell(messages.leader_announced(message, verdict, node.clock.now()))
    return messages.begin_response(await verdict)
