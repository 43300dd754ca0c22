"""DescribeGroups (key 15), versions 0-5: state, protocol and members of groups."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.handlers.groups import why_not_here
from minikafka.broker.pacing import paced
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

GROUPS_AT_ONCE = 100


async def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    """Ask each group's coordinator, once."""
    groups = paced(dict.fromkeys(request.groups), GROUPS_AT_ONCE)
    return DescribeGroupsResponse(groups=[_describe(group_id, context) async for group_id in groups])


def _describe(group_id: str, context: RequestContext) -> DescribedGroup:
    shard = context.node.groups.shard_of(group_id)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=why_not_here(group_id))
    return shard.coordinator.describe_group(group_id)
