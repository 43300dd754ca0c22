"""OffsetDelete (key 47), version 0: drop a group's offsets of topics it does not subscribe to (KIP-496).

Partitions that do not exist are refused one by one; a mistyped name is not told to be done.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Each, Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.committed_topics import add_refusals
from minikafka.broker.handlers.groups import Coordinators
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from minikafka.wire.schema import Message

AUTHORIZATION: Final = (
    Whole(AclOperation.DELETE, ResourceType.GROUP, "group_id"),
    Each("topics", AclOperation.READ, ResourceType.TOPIC),
)


def handle(
    request: OffsetDeleteRequest, context: RequestContext, coordinators: Coordinators, metadata: Metadata
) -> None:
    """Hand what names existing partitions to the coordinator, and put the rest into its answer."""
    unknown = _take_unknown(request, metadata.image)

    def send(response: Message) -> None:
        assert isinstance(response, OffsetDeleteResponse)
        if not response.error_code:
            add_refusals(response.topics, unknown)
        context.send(response)

    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.offset_delete(request, send, now_ms),
        lambda error: OffsetDeleteResponse(error_code=error),
        looks_at_all=True,
    )


def _take_unknown(request: OffsetDeleteRequest, image: MetadataImage) -> list[OffsetDeleteResponseTopic]:
    """Take the partitions that do not exist out of the request; their refusals."""
    refused = []
    for topic in request.topics:
        found = image.topic(topic.name)
        known = found.partitions if found is not None else {}
        missing = dict.fromkeys(each.partition_index for each in topic.partitions if each.partition_index not in known)
        topic.partitions = [each for each in topic.partitions if each.partition_index in known]
        if missing:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            partitions = [OffsetDeleteResponsePartition(partition_index=index, error_code=error) for index in missing]
            refused.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    request.topics = [topic for topic in request.topics if topic.partitions]
    return refused
