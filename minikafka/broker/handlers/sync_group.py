"""SyncGroup (key 14), versions 0-5: answered when the leader's assignment is committed."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

AUTHORIZATION: Final = (Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: SyncGroupRequest, context: RequestContext, coordinators: Coordinators) -> None:
    """Hand it to the coordinator."""
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.sync_group(request, context.send, now_ms),
        lambda error: SyncGroupResponse(error_code=error),
    )
