"""EndQuorumEpoch (54), versions 0-1: a leader of the quorum resigns and names who should try first."""

import asyncio
from typing import TYPE_CHECKING

from hightide.node import quorum_messages as messages
from hightide.replication.quorum_effects import AnswerEndEpoch
from hightide.wire.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: EndQuorumEpochRequest, request: "Request") -> EndQuorumEpochResponse:
    """Stand for election, at once when named first."""
    verdict: asyncio.Future[AnswerEndEpoch] = asyncio.get_running_loop().create_future()
    node.metadata.quorum.tell(messages.leader_resigned(message, verdict, node.clock.now()))
    return messages.end_response(await verdict)
