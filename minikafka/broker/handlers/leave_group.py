"""LeaveGroup (key 13), versions 0-5: one member, or from version 3 several (KIP-345)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

AUTHORIZATION: Final = (Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),)


def handle(request: LeaveGroupRequest, context: RequestContext, coordinators: Coordinators) -> None:
    """Hand it to the coordinator."""
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.leave_group(request, context.version, context.send, now_ms),
        lambda error: LeaveGroupResponse(error_code=error),
        is_of_member=True,
    )
