"""ListGroups (key 16), versions 0-5: the groups that this node coordinates; clients ask every broker."""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.long_answers import LongAnswers
from minikafka.coordination.phase import Phase
from minikafka.errors import ErrorCode
from minikafka.security.acls import CLUSTER_NAME, AclOperation, ResourceType
from minikafka.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

AUTHORIZATION: Final = (ByHandler("DESCRIBE on the cluster; else groups with DESCRIBE are listed", ()),)


async def handle(
    request: ListGroupsRequest,
    context: RequestContext,
    groups: Groups,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> ListGroupsResponse | None:
    """All shards' groups; an error when one of them is still loading, because its groups would be missing."""
    listed: list[bytes] = []
    sees_all = authorizer.sees(context, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    async with long_answers.prepare(context) as answer:
        for shard in groups:
            if shard.coordinator.phase is Phase.LOADING:
                return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            for group in shard.coordinator.list_groups(request.states_filter, request.types_filter):
                if group is not None and (
                    sees_all or authorizer.sees(context, AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
                ):
                    listed.append(await answer.encoded(group, 1))
                else:
                    await answer.add(1)  # to look costs as much
        context.send_around(ListGroupsResponse(), "groups", listed)
    return None
