"""DescribeCluster (60), versions 0-2: the cluster's id, its controller and its brokers.

Version 1 can ask for controllers' endpoints, which clients do not reach here; version 2 for fenced brokers too.
"""

from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request

BROKERS = 1


def handle(node: "Node", message: DescribeClusterRequest, request: "Request") -> DescribeClusterResponse:
    """What the committed image says."""
    if message.endpoint_type != BROKERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="this listener belongs to a broker",
            endpoint_type=BROKERS,
        )
    brokers = [
        broker
        for _, broker in sorted(node.image.brokers.items())
        if not broker.fenced or message.include_fenced_brokers
    ]
    response = DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=node.directory.identity.cluster_id,
        controller_id=node.controller_id,
    )
    for broker in brokers:
        endpoint = broker.endpoint(request.session.listener_name) or broker.endpoints[0]
        response.brokers.append(
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
        )
    return response
