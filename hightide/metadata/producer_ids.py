"""Blocks of producer ids: each is handed out once, whoever asks, whatever fails (N11)."""

from hightide.errors import ApiError, ErrorCode
from hightide.limits import PRODUCER_ID_BLOCK_SIZE
from hightide.metadata.decision import Decision, View
from hightide.metadata.settings.definition import INT64_MAX
from hightide.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from hightide.wire.messages.metadata_log import ProducerIdsRecord


def allocate_producer_ids(view: View, request: AllocateProducerIdsRequest) -> Decision[AllocateProducerIdsResponse]:
    """The next block, for a broker in its current life."""
    first = view.image.next_producer_id
    try:
        view.broker_with_epoch(request.broker_id, request.broker_epoch)
        if first > INT64_MAX - PRODUCER_ID_BLOCK_SIZE:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
    except ApiError as error:
        return Decision([], AllocateProducerIdsResponse(error_code=error.code))
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=first + PRODUCER_ID_BLOCK_SIZE,
    )
    reply = AllocateProducerIdsResponse(producer_id_start=first, producer_id_len=PRODUCER_ID_BLOCK_SIZE)
    return Decision([record], reply)
