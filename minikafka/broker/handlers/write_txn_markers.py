"""WriteTxnMarkers (key 27), versions 1-2: the end of transactions, by their coordinator or an admin client (KIP-98).

An admin client aborts a hanging transaction with it (KIP-664): an open one, by the epochs that DescribeProducers shows,
and nothing else (docs/decisions/0023). Each partition's marker is answered once it is below the high watermark, as a
produce with acks=all. Transaction version 2 (KIP-890) asks for a higher producer epoch than that of the records.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.marker_writes import MARKERS_AT_ONCE, of_a_coordinator, of_an_operator, write_markers
from minikafka.broker.pacing import paced
from minikafka.broker.replicas import Replicas
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER, instead=AclOperation.CLUSTER_ACTION),)


async def handle(
    request: WriteTxnMarkersRequest, context: RequestContext, replicas: Replicas
) -> WriteTxnMarkersResponse:
    """Write all markers, and answer when the replicas have them."""
    check = of_a_coordinator if context.is_replica else of_an_operator
    return await write_markers(request, replicas, lambda wanted: paced(wanted, MARKERS_AT_ONCE, context), check)
