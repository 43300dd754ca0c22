"""DescribeCluster (key 60), versions 0-2: the cluster id, the controller and the brokers (KIP-700).

Fenced brokers are among them from version 2 on, when asked for (KIP-1073). Controllers have no endpoint of their own
for clients, so their listing (KIP-919) is refused.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.quorum import Quorum
from minikafka.errors import ErrorCode
from minikafka.net.identity import Identity
from minikafka.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS: Final = 1


def handle(
    request: DescribeClusterRequest, context: RequestContext, metadata: Metadata, quorum: Quorum, identity: Identity
) -> DescribeClusterResponse:
    """Answer from this node's image."""
    if request.endpoint_type != BROKERS:
        message = "endpoint type not supported; it must be 1 (brokers)"
        return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
    registered = sorted(metadata.image.brokers.items())
    return DescribeClusterResponse(
        cluster_id=identity.cluster_id,
        controller_id=quorum.controller_id(metadata.image),
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
