"""OffsetCommit (key 8), versions 2-10: answered when the offsets are replicated.

Offsets of partitions that do not exist are refused one by one; the rest goes to the coordinator as one write. Of a
partition that is named several times the last offset counts: one request could write 10,000 for it, 0.16 s of the loop.
From version 10 on a topic is named by its id.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.groups import Coordinators
from minikafka.errors import ErrorCode
from minikafka.groups.answers import commit_answer
from minikafka.metadata.image import MetadataImage
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from minikafka.wire.schema import Message

FIRST_VERSION_WITH_IDS: Final = 10


def handle(
    request: OffsetCommitRequest, context: RequestContext, coordinators: Coordinators, metadata: Metadata
) -> None:
    """Hand what names existing partitions to the coordinator, and put the rest into its answer."""
    by_id = context.version >= FIRST_VERSION_WITH_IDS
    unknown = _take_unknown(request, metadata.image, by_id=by_id)

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


def _take_unknown(
    request: OffsetCommitRequest, image: MetadataImage, *, by_id: bool
) -> list[OffsetCommitResponseTopic]:
    unknown: list[OffsetCommitResponseTopic] = []
    known: dict[str, OffsetCommitRequestTopic] = {}
    offsets: defaultdict[str, dict[int, OffsetCommitRequestPartition]] = defaultdict(dict)
    for topic in request.topics:
        found = image.topic_by_id(topic.topic_id) if by_id else image.topic(topic.name)
        missing = {
            partition.partition_index: None
            for partition in topic.partitions
            if found is None or partition.partition_index not in found.partitions
        }
        if missing:
            error = ErrorCode.UNKNOWN_TOPIC_ID if by_id and found is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            unknown.append(
                OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        OffsetCommitResponsePartition(partition_index=index, error_code=error) for index in missing
                    ],
                )
            )
        kept = {each.partition_index: each for each in topic.partitions if each.partition_index not in missing}
        if kept and found is not None:
            known.setdefault(found.name, OffsetCommitRequestTopic(name=found.name, topic_id=topic.topic_id))
            offsets[found.name].update(kept)
    for name, topic in known.items():
        topic.partitions = list(offsets[name].values())
    request.topics = list(known.values())
    return unknown
