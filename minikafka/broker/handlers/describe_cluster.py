"""DescribeCluster (key 60), versions 0-2: the cluster id, the controller and the brokers (KIP-700).

Fenced brokers are among them from version 2 on, when asked for (KIP-1073). Controllers have no endpoint of their own
for clients, so their listing (KIP-919) is refused.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.errors import ErrorCode
from minikafka.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Answer from this node's image."""
    node = context.node
    if request.endpoint_type != BROKERS:
        message = "only brokers are listed here; ask for endpoint type 1"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    registered = sorted(node.image.brokers.items())
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.controller_id_for_clients(),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker_id,
                host=endpoint.host,
                port=endpoint.port,
                rack=broker.rack,
                is_fenced=broker.fenced,
            )
            for broker_id, broker in registered
            if (endpoint := broker.listeners.get(context.listener)) is not None
            and (broker.is_live or request.include_fenced_brokers)
        ],
    )
