"""OffsetCommit (key 8), versions 2-10: answered when the offsets are replicated.

Offsets of partitions that do not exist are refused one by one; the rest goes to the coordinator as one write. From
version 10 on a topic is named by its id.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Each, Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.committed_topics import Refused, add_refusals, take_unknown
from minikafka.broker.handlers.groups import Coordinators
from minikafka.groups.answers import commit_answer
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.wire.schema import Message

AUTHORIZATION: Final = (
    Whole(AclOperation.READ, ResourceType.GROUP, "group_id"),
    Each("topics", AclOperation.READ, ResourceType.TOPIC),
)

FIRST_VERSION_WITH_IDS: Final = 10


def handle(
    request: OffsetCommitRequest, context: RequestContext, coordinators: Coordinators, metadata: Metadata
) -> None:
    """Hand what names existing partitions to the coordinator, and put the rest into its answer."""
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    unknown = [_refusal(each) for each in take_unknown(request, metadata.image, by_id=by_id)]

    def whole(response: Message) -> Message:
        assert isinstance(response, OffsetCommitResponse)
        add_refusals(response.topics, unknown)
        return response

    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.offset_commit(
            request, context.version, lambda response: context.send(whole(response)), now_ms
        ),
        lambda error: whole(commit_answer(request, error)),
    )


def _refusal(refused: Refused) -> OffsetCommitResponseTopic:
    partitions = [
        OffsetCommitResponsePartition(partition_index=index, error_code=refused.error) for index in refused.partitions
    ]
    return OffsetCommitResponseTopic(name=refused.name, topic_id=refused.topic_id, partitions=partitions)
