"""ConsumerGroupDescribe (key 69), versions 0-1: state, epochs, members and assignments of consumer groups (KIP-848).

A classic group, as one that is not there, is told as GROUP_ID_NOT_FOUND: DescribeGroups describes it.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minikafka.broker.authorization import ByHandler, Each
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.groups import Groups
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.groups import GROUP_ROWS, why_not_here
from minikafka.broker.long_answers import LongAnswers
from minikafka.errors import ErrorCode
from minikafka.metadata.features import has_consumer_groups
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
)

AUTHORIZATION: Final = (
    Each("group_ids", AclOperation.DESCRIBE, ResourceType.GROUP),
    ByHandler("DESCRIBE on each topic of it", ((AclOperation.DESCRIBE, ResourceType.TOPIC),)),
)

PARTITIONS_PER_ROW: Final = 20


async def handle(
    request: ConsumerGroupDescribeRequest,
    context: RequestContext,
    groups: Groups,
    metadata: Metadata,
    long_answers: LongAnswers,
    authorizer: Authorizer,
) -> None:
    """Ask each group's coordinator, once."""
    is_served = has_consumer_groups(metadata.image.features)
    described: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for group_id in dict.fromkeys(request.group_ids):
            group = _describe(group_id, groups) if is_served else _refused(group_id, ErrorCode.UNSUPPORTED_VERSION)
            sees = partial(authorizer.sees, context, AclOperation.DESCRIBE, ResourceType.TOPIC)
            if authorizer.is_enabled and not all(map(sees, _topics(group))):
                group = _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                group.error_message = "the group has topics that whoever asks may not describe"
            if request.include_authorized_operations and not group.error_code:
                group.authorized_operations = authorizer.operations(context, ResourceType.GROUP, group_id)
            described.append(await answer.encoded(group, _rows(group)))
        context.send_around(ConsumerGroupDescribeResponse(), "groups", described)


def _describe(group_id: str, groups: Groups) -> DescribedConsumerGroup:
    shard = groups.shard_of(group_id)
    if shard is None:
        return _refused(group_id, why_not_here(group_id))
    return shard.coordinator.describe_consumer_group(group_id)


def _refused(group_id: str, error: ErrorCode) -> DescribedConsumerGroup:
    return DescribedConsumerGroup(group_id=group_id, error_code=error)


def _topics(group: DescribedConsumerGroup) -> set[str]:
    """What its members subscribe to by name, or have."""
    names = {name for member in group.members for name in member.subscribed_topic_names}
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            names.update(topic.topic_name for topic in (assignment.topic_partitions if assignment is not None else ()))
    return names


def _rows(group: DescribedConsumerGroup) -> int:
    both = [each for member in group.members for each in (member.assignment, member.target_assignment)]
    return GROUP_ROWS + len(group.members) + sum(map(_partitions, both)) // PARTITIONS_PER_ROW


def _partitions(assignment: DescribedAssignment | None) -> int:
    return 0 if assignment is None else sum(len(topic.partitions) for topic in assignment.topic_partitions)
