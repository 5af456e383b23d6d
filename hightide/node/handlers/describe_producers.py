"""DescribeProducers (61), version 0: the producers a partition remembers (KIP-664)."""

from typing import TYPE_CHECKING

from hightide.errors import ApiError
from hightide.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request


def handle(node: "Node", message: DescribeProducersRequest, request: "Request") -> DescribeProducersResponse:
    """One list per partition."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_describe(node, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in message.topics
        ]
    )


def _describe(node: "Node", topic: str, index: int) -> PartitionResponse:
    answer = PartitionResponse(partition_index=index)
    try:
        partition = node.partition(topic, index)
        partition.check_leader()
    except ApiError as error:
        answer.error_code = error.code
        answer.error_message = error.message
        return answer
    answer.active_producers = [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.batches[-1].last_sequence if producer.batches else -1,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.transaction_start,
        )
        for producer in partition.log.producers.active
    ]
    return answer
