"""Heartbeat (key 12), versions 0-4: keeps a member's session, and tells it of a rebalance."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

AUTHORIZATION: Final = (Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: HeartbeatRequest, context: RequestContext, coordinators: Coordinators) -> None:
    """Hand it to the coordinator."""
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.heartbeat(request, context.send, now_ms),
        lambda error: HeartbeatResponse(error_code=error),
    )
