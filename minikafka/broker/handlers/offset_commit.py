"""OffsetCommit (key 8), versions 2-9: answered when the offsets are replicated.

Offsets of partitions that do not exist are refused one by one; the rest goes to the coordinator as one write.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.groups import Coordinators
from minikafka.errors import ErrorCode
from minikafka.groups.answers import commit_answer
from minikafka.metadata.image import MetadataImage
from minikafka.model import TopicPartition
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.wire.schema import Message


def handle(
    request: OffsetCommitRequest, context: RequestContext, coordinators: Coordinators, metadata: Metadata
) -> None:
    """Hand what names existing partitions to the coordinator, and put the rest into its answer."""
    unknown = _take_unknown(request, metadata.image)

    def whole(response: Message) -> Message:
        assert isinstance(response, OffsetCommitResponse)
        response.topics.extend(unknown)
        return response

    coordinators.serve(
        request.group_id,
        context,
        lambda coordinator, now_ms: coordinator.offset_commit(
            request, context.version, lambda response: context.send(whole(response)), now_ms
        ),
        lambda error: whole(commit_answer(request, error)),
    )


def _take_unknown(request: OffsetCommitRequest, image: MetadataImage) -> list[OffsetCommitResponseTopic]:
    unknown, known = [], []
    for topic in request.topics:
        missing = {
            partition.partition_index: None
            for partition in topic.partitions
            if image.partition(TopicPartition(topic.name, partition.partition_index)) is None
        }
        if missing:
            unknown.append(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                        )
                        for index in missing
                    ],
                )
            )
        kept = [partition for partition in topic.partitions if partition.partition_index not in missing]
        if kept:
            known.append(OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=kept))
    request.topics = known
    return unknown
