"""DescribeCluster (key 60), versions 0-2: the cluster id, the controller and the brokers (KIP-700).

Fenced brokers are among them from version 2 on, when asked for (KIP-1073). The listing of controllers (KIP-919) is
refused, as by a broker of Apache Kafka: it belongs to the listener of controllers.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import NOT_ASKED, Authorizer
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

AUTHORIZATION: Final = (ByHandler("anyone; what may be done with the cluster is told to who has DESCRIBE on it", ()),)

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(
    request: DescribeClusterRequest,
    context: RequestContext,
    metadata: Metadata,
    quorum: Quorum,
    identity: Identity,
    authorizer: Authorizer,
) -> DescribeClusterResponse:
    """Answer from this node's image."""
    wants_operations = request.include_cluster_authorized_operations
    if request.endpoint_type != BROKERS:
        return _refused(request.endpoint_type)
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
        cluster_authorized_operations=authorizer.operations_on_cluster(context) if wants_operations else NOT_ASKED,
    )


def _refused(endpoint_type: int) -> DescribeClusterResponse:
    if endpoint_type == CONTROLLERS:
        message = "this endpoint is one of brokers, not of controllers; ask for endpoint type 1 (brokers)"
        return DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, error_message=message)
    message = f"endpoint type {endpoint_type} not supported; it must be 1 (brokers)"
    return DescribeClusterResponse(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, error_message=message)
