"""InitProducerId (22), versions 0-5: an id for an idempotent producer, never given twice.

Ids come from blocks that the controller hands out through the metadata log, so that they stay unique over restarts and
brokers. Without a transactional id every call gets a new one, whatever the client had before (Kafka does the same).
Transactions have no coordinator here yet: a transactional id is refused.
"""

from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


async def handle(node: "Node", message: InitProducerIdRequest, request: "Request") -> InitProducerIdResponse:
    """The next id of the node's block, at epoch 0."""
    if message.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=await node.producer_ids.next(), producer_epoch=0)
