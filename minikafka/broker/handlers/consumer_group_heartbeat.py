"""ConsumerGroupHeartbeat (key 68), versions 0-1: a member joins, stays, leaves, and gets partitions (KIP-848).

Refused with UNSUPPORTED_VERSION while ``group.version`` is below 1. Version 1 can subscribe by a regular expression,
which must be one of RE2's.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler, Whole
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import MANY_ELEMENTS_MAX, RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.groups import Coordinators
from minikafka.broker.patterns import compiled
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.joins import Caller
from minikafka.metadata.features import has_consumer_groups
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

AUTHORIZATION: Final = (
    Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),
    ByHandler("DESCRIBE on each topic that is subscribed to", ((AclOperation.DESCRIBE, ResourceType.TOPIC),)),
)

ELEMENTS_MAX: Final = MANY_ELEMENTS_MAX


def handle(
    request: ConsumerGroupHeartbeatRequest,
    context: RequestContext,
    coordinators: Coordinators,
    metadata: Metadata,
    authorizer: Authorizer,
) -> None:
    """Check what the coordinator takes for granted, and hand it over."""
    try:
        if not has_consumer_groups(metadata.image.features):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "group.version is below 1: consumer groups are disabled")
        if request.subscribed_topic_regex:
            compiled(request.subscribed_topic_regex)
        for name in request.subscribed_topic_names or ():
            if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    except KafkaError as error:
        context.send(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.told))
        return
    connection = context.connection
    caller = Caller(context.client_id or "", connection.peer_host, context.version, connection.user)
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.consumer_group_heartbeat(request, caller, context.send, now_ms),
        lambda error: ConsumerGroupHeartbeatResponse(error_code=error),
        is_of_member=True,
    )
