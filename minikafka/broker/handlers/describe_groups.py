"""DescribeGroups (key 15), versions 0-6: state, protocol and members of groups.

A group that is not there is told as GROUP_ID_NOT_FOUND from version 6 on, before as one that is Dead (KIP-1043).
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.handlers.groups import GROUP_ROWS, why_not_here
from minikafka.broker.long_answers import LongAnswers
from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.group import GroupState
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

AUTHORIZATION: Final = (Each("groups", AclOperation.DESCRIBE, ResourceType.GROUP),)

ROW_BYTES: Final = 4096
FIRST_VERSION_WITH_NOT_FOUND: Final = 6


async def handle(
    request: DescribeGroupsRequest,
    context: RequestContext,
    groups: Groups,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> None:
    """Ask each group's coordinator, once."""
    described: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for group_id in dict.fromkeys(request.groups):
            group = _describe(group_id, groups, context.version)
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = authorizer.operations(context, ResourceType.GROUP, group_id)
            described.append(await answer.encoded(group, _rows(group)))
        context.send_around(DescribeGroupsResponse(), "groups", described)


def _rows(group: DescribedGroup) -> int:
    size = sum(len(member.member_metadata) + len(member.member_assignment) for member in group.members)
    return GROUP_ROWS + len(group.members) + size // ROW_BYTES


def _describe(group_id: str, groups: Groups, version: int) -> DescribedGroup:
    shard = groups.shard_of(group_id)
    if shard is None:
        return DescribedGroup(group_id=group_id, error_code=why_not_here(group_id))
    group = shard.coordinator.describe_group(group_id)
    if version >= FIRST_VERSION_WITH_NOT_FOUND and group.group_state == GroupState.DEAD.value:
        error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r} not found")
        group.error_code, group.error_message = error.code, error.message
    return group
