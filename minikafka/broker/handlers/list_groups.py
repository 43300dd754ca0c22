"""ListGroups (key 16), versions 0-5: the groups that this node coordinates; clients ask every broker."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.long_answers import LongAnswers
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.wire.codec import encode_around
from minikafka.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


async def handle(
    request: ListGroupsRequest, context: RequestContext, groups: Groups, long_answers: LongAnswers
) -> ListGroupsResponse | None:
    """All shards' groups; an error when one of them is still loading, because its groups would be missing."""
    listed: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for shard in groups:
            if shard.coordinator.phase is Phase.LOADING:
                return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            found = shard.coordinator.list_groups(request.states_filter, request.types_filter)
            listed += [await answer.encoded(group, 1) for group in found]
        context.send_body(encode_around(ListGroupsResponse(), context.version, "groups", listed))
    return None
