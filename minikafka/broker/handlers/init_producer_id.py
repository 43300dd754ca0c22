"""InitProducerId (key 22), versions 0-5: an id for an idempotent producer (KIP-98, KIP-360).

Ids come in blocks from the controller. Transactions are not offered, so a transactional id is refused; a producer that
names its old id gets a new one, which is always right: it begins with fresh sequences.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.producer_ids import ProducerIds
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


async def handle(
    request: InitProducerIdRequest, context: RequestContext, producer_ids: ProducerIds
) -> InitProducerIdResponse:
    """The next id of this node's block, in epoch 0."""
    if request.transactional_id is not None:
        error = ErrorCode.INVALID_REQUEST if not request.transactional_id else ErrorCode.UNSUPPORTED_VERSION
        return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
    try:
        producer_id = await producer_ids.next()
    except KafkaError:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
