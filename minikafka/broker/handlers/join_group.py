"""JoinGroup (key 11), versions 0-9: a delayed operation, answered when the join phase completes (row D7)."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators
from minikafka.errors import ErrorCode
from minikafka.groups.joins import Caller
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

AUTHORIZATION: Final = (Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),)

TOO_LARGE: Final = JoinGroupResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE)
"""For metadata of a member beyond what a request may have, as for the assignments of a leader."""


def handle(request: JoinGroupRequest, context: RequestContext, coordinators: Coordinators) -> None:
    """Hand it to the coordinator."""
    caller = Caller(context.client_id or "", context.connection.peer_host, context.version)
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.join_group(request, caller, context.send, now_ms),
        lambda error: JoinGroupResponse(error_code=error, member_id=request.member_id),
        is_of_member=True,
    )
