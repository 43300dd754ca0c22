"""UnregisterBroker (key 64), version 0: forget a broker that is gone for good.

Forwarded to the active controller. A broker that comes back registers anew.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S, wait_until_seen
from minikafka.errors import KafkaError
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: UnregisterBrokerRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> UnregisterBrokerResponse:
    """Answered when it is committed, and seen here."""
    try:
        answer = await controller.call(request, UnregisterBrokerResponse, timeout_s=LONGEST_TIMEOUT_S / 2)
    except KafkaError as error:
        return UnregisterBrokerResponse(error_code=error.code, error_message=error.told)
    await wait_until_seen(metadata, lambda image: image.broker(request.broker_id) is None)
    return answer
