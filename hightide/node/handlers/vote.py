"""Vote (52), versions 0-2: a candidate asks for this voter's vote, or (version 2) whether it would get it (pre-vote).

The answer leaves when the vote is durable (R9): the quorum machine holds it back until then.
"""

import asyncio
from typing import TYPE_CHECKING

from hightide.node import quorum_messages as messages
from hightide.replication.quorum_effects import AnswerVote
from hightide.wire.messages.vote import VoteRequest, VoteResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: VoteRequest, request: "Request") -> VoteResponse:
    """Grant or refuse."""
    verdict: asyncio.Future[AnswerVote] = asyncio.get_running_loop().create_future()
    node.metadata.quorum.tell(messages.vote_requested(message, verdict, node.clock.now()))
    return messages.vote_response(await verdict)
