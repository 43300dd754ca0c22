"""OffsetDelete (key 47), version 0: drop a group's offsets of topics it does not subscribe to (KIP-496)."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators
from minikafka.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse


def handle(request: OffsetDeleteRequest, context: RequestContext, coordinators: Coordinators) -> None:
    """Hand it to the coordinator."""
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.offset_delete(request, context.send, now_ms),
        lambda error: OffsetDeleteResponse(error_code=error),
    )
