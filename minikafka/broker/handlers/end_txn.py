"""EndTxn (key 26), versions 0-5: answered once the end of the transaction is decided; its markers follow.

A client of version 5 speaks transaction version 2: the next transaction has another epoch, which it is told (KIP-890).
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.transaction_coordinators import CLASSIC, VERSION_2, TransactionCoordinators, told
from minikafka.model import ProducerIdentity
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

AUTHORIZATION: Final = (Whole(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "transactional_id"),)

FIRST_OF_VERSION_2: Final = 5
FIRST_WITH_FENCED: Final = 2


async def handle(
    request: EndTxnRequest, context: RequestContext, coordinators: TransactionCoordinators
) -> EndTxnResponse:
    """Commit or abort, behind what was asked for before."""
    producer = ProducerIdentity(request.producer_id, request.producer_epoch)
    client_version = VERSION_2 if context.version >= FIRST_OF_VERSION_2 else CLASSIC
    await coordinators.wait_for_additions(request.transactional_id)
    outcome = await coordinators.ask(
        request.transactional_id,
        lambda coordinator, token, now_ms: coordinator.end_transaction(
            request.transactional_id, producer, client_version, token, now_ms, commits=request.committed
        ),
    )
    return EndTxnResponse(
        error_code=told(outcome.error, context.version, FIRST_WITH_FENCED),
        producer_id=outcome.producer_id,
        producer_epoch=outcome.producer_epoch,
    )
