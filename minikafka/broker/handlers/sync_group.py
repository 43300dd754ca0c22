"""SyncGroup (key 14), versions 0-5: answered when the leader's assignment is committed."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import Coordinators
from minikafka.errors import ErrorCode
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

AUTHORIZATION: Final = (Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),)

FIRST_THAT_NAMES_THE_PROTOCOL: Final = 5

TOO_LARGE: Final = SyncGroupResponse(error_code=ErrorCode.MESSAGE_TOO_LARGE)
"""For assignments beyond what a request may have. Without an answer the leader would connect and ask for ever, and its
application never learn it. Kafka answers UNKNOWN_SERVER_ERROR when they do not fit in a record; clients raise either to
their applications, and this one says what is wrong."""


def handle(request: SyncGroupRequest, context: RequestContext, coordinators: Coordinators) -> None:
    """Hand it to the coordinator, if it says of which protocol the assignments are where it can (KIP-559)."""
    is_nameless = request.protocol_type is None or request.protocol_name is None
    if is_nameless and context.version >= FIRST_THAT_NAMES_THE_PROTOCOL:
        context.send(SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.sync_group(request, context.send, now_ms),
        lambda error: SyncGroupResponse(error_code=error),
    )
