"""InitProducerId (key 22), versions 0-5: an id and an epoch for an idempotent or transactional producer (KIP-98, -360).

Ids come in blocks from the controller. An idempotent producer that names its old id gets a new one, which is always
right: it begins with fresh sequences. A transactional id keeps its producer id, in the next epoch.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.producer_ids import ProducerIds
from minikafka.broker.transaction_coordinators import TransactionCoordinators, told
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdentity
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.transactions.effects import Outcome
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

AUTHORIZATION: Final = (
    ByHandler(
        "WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on any topic",
        ((AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID),),
    ),
)

FIRST_WITH_FENCED: Final = 4


async def handle(
    request: InitProducerIdRequest,
    context: RequestContext,
    producer_ids: ProducerIds,
    coordinators: TransactionCoordinators,
    authorizer: Authorizer,
) -> InitProducerIdResponse:
    """The next id of this node's block in epoch 0, or what the coordinator of the transactional id says."""
    if (denied := _denial(request.transactional_id, context, authorizer)) is not None:
        return InitProducerIdResponse(error_code=denied, producer_id=NO_PRODUCER_ID, producer_epoch=NO_PRODUCER_EPOCH)
    try:
        await producer_ids.ensure()
        if request.transactional_id is None:
            outcome = Outcome(ErrorCode.NONE, producer_ids.take(), 0)
        else:
            outcome = await _of_coordinator(request, request.transactional_id, coordinators)
    except KafkaError:
        outcome = Outcome(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return InitProducerIdResponse(
        error_code=told(outcome.error, context.version, FIRST_WITH_FENCED),
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
    )


def _denial(transactional_id: str | None, context: RequestContext, authorizer: Authorizer) -> ErrorCode | None:
    """Whoever may write to some topic needs no other right for an id without transactions (KIP-679)."""
    if transactional_id is not None:
        if not authorizer.permits(context, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif not authorizer.permits_on_any(context, AclOperation.WRITE, ResourceType.TOPIC) and not authorizer.permits(
        context, AclOperation.IDEMPOTENT_WRITE, ResourceType.CLUSTER
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return None


async def _of_coordinator(
    request: InitProducerIdRequest, transactional_id: str, coordinators: TransactionCoordinators
) -> Outcome:
    expected = ProducerIdentity(request.producer_id, request.producer_epoch)
    if (expected.producer_id == NO_PRODUCER_ID) != (expected.epoch == NO_PRODUCER_EPOCH):
        return Outcome(ErrorCode.INVALID_REQUEST)
    return await coordinators.ask(
        transactional_id,
        lambda coordinator, token, now_ms: coordinator.init_producer_id(
            transactional_id,
            request.transaction_timeout_ms,
            None if expected.producer_id == NO_PRODUCER_ID else expected,
            token,
            now_ms,
        ),
    )
