"""DescribeGroups (key 15), versions 0-6: state, protocol and members of groups.

A group that is not there is told as GROUP_ID_NOT_FOUND from version 6 on, before as one that is Dead (KIP-1043).
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.handlers.groups import why_not_here
from minikafka.broker.pacing import paced
from minikafka.errors import ErrorCode
from minikafka.groups.group import GroupState
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

GROUPS_AT_ONCE: Final = 100
FIRST_VERSION_WITH_NOT_FOUND: Final = 6


async def handle(request: DescribeGroupsRequest, context: RequestContext, groups: Groups) -> DescribeGroupsResponse:
    """Ask each group's coordinator, once."""
    wanted = paced(dict.fromkeys(request.groups), GROUPS_AT_ONCE)
    described = [_describe(group_id, groups) async for group_id in wanted]
    if context.version >= FIRST_VERSION_WITH_NOT_FOUND:
        for group in described:
            if group.group_state == GroupState.DEAD.value:
                group.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                group.error_message = f"group {group.group_id!r} not found"
    return DescribeGroupsResponse(groups=described)


def _describe(group_id: str, groups: Groups) -> DescribedGroup:
    shard = groups.shard_of(group_id)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=why_not_here(group_id))
    return shard.coordinator.describe_group(group_id)
