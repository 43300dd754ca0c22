"""ListGroups (key 16), versions 0-5: the groups that this node coordinates; clients ask every broker."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.errors import ErrorCode
from minikafka.groups.coordinator import Phase
from minikafka.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(request: ListGroupsRequest, context: RequestContext, groups: Groups) -> ListGroupsResponse:
    """All shards' groups; an error when one of them is still loading, because its groups would be missing."""
    response = ListGroupsResponse()
    for shard in groups:
        if shard.coordinator.phase is Phase.LOADING:
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        response.groups.extend(shard.coordinator.list_groups(request.states_filter, request.types_filter))
    return response
