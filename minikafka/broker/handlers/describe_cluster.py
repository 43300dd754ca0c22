"""DescribeCluster (key 60), versions 0-1: the cluster id, the controller and the live brokers (KIP-700)."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


def handle(request: DescribeClusterRequest, context: RequestContext) -> DescribeClusterResponse:
    """Answer from this node's image."""
    node = context.node
    return DescribeClusterResponse(
        cluster_id=node.cluster_id,
        controller_id=node.controller_id_for_clients(),
        brokers=[
            DescribeClusterBroker(broker_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in node.image.live_brokers()
            if (endpoint := broker.listeners.get(context.listener)) is not None
        ],
    )
