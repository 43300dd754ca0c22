"""DescribeGroups (key 15), versions 0-5: state, protocol and members of groups."""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.handlers.groups import why_not_here
from minikafka.broker.pacing import paced
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

GROUPS_AT_ONCE = 100


async def handle(request: DescribeGroupsRequest, context: RequestContext, groups: Groups) -> DescribeGroupsResponse:
    """Ask each group's coordinator, once."""
    wanted = paced(dict.fromkeys(request.groups), GROUPS_AT_ONCE)
    return DescribeGroupsResponse(groups=[_describe(group_id, groups) async for group_id in wanted])


def _describe(group_id: str, groups: Groups) -> DescribedGroup:
    shard = groups.shard_of(group_id)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=why_not_here(group_id))
    return shard.coordinator.describe_group(group_id)
