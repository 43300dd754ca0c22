"""DescribeTopicPartitions (key 75), version 0: topics page by page, with eligible leader replicas (KIP-966).

Topics come in order of name. A page holds so many partitions as were asked for, up to 2,000, and a topic without any
counts as one: no answer is longer, whatever was named. The cursor names where the next page begins.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.metadata import why_missing
from minikafka.errors import ErrorCode
from minikafka.metadata.image import MetadataImage, PartitionImage, TopicImage
from minikafka.model import INTERNAL_TOPICS, NO_NODE
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

AUTHORIZATION: Final = (
    ByHandler(
        "DESCRIBE on each topic; others are told as such, or left out", ((AclOperation.DESCRIBE, ResourceType.TOPIC),)
    ),
)

LARGEST_PAGE: Final = 2000

Topic = DescribeTopicPartitionsResponseTopic


def handle(
    request: DescribeTopicPartitionsRequest, context: RequestContext, metadata: Metadata, authorizer: Authorizer
) -> DescribeTopicPartitionsResponse:
    """Answer from this node's image."""
    image, cursor = metadata.image, request.cursor
    names = sorted({topic.name for topic in request.topics} or _visible(image, context, authorizer))
    if cursor is not None and (cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names)):
        return DescribeTopicPartitionsResponse(
            topics=[Topic(name=name, error_code=ErrorCode.INVALID_REQUEST) for name in names[:LARGEST_PAGE]]
        )
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    room = min(max(request.response_partition_limit, 1), LARGEST_PAGE)
    answer = DescribeTopicPartitionsResponse()
    for name in names:
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        if room <= 0:
            answer.next_cursor = Cursor(topic_name=name, partition_index=first)
            break
        if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            answer.topics.append(Topic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
            room -= 1
            continue
        described = _describe(image, name, first, room)
        described.topic_authorized_operations = authorizer.operations(context, ResourceType.TOPIC, name)
        answer.topics.append(described)
        room -= max(1, len(described.partitions))
        following = first + len(described.partitions)
        topic = image.topic(name)
        if topic is not None and following < len(topic.partitions):
            answer.next_cursor = Cursor(topic_name=name, partition_index=following)
            break
    return answer


def _visible(image: MetadataImage, context: RequestContext, authorizer: Authorizer) -> list[str]:
    sees = partial(authorizer.sees, context, AclOperation.DESCRIBE, ResourceType.TOPIC)
    return list(filter(sees, image.topics_by_name))


def _describe(image: MetadataImage, name: str, first: int, limit: int) -> Topic:
    topic = image.topic(name)
    if topic is None:
        return Topic(name=name, error_code=why_missing(name))
    return Topic(
        name=name,
        topic_id=topic.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(image, index, topic.partitions[index]) for index in _page(topic, first, limit)],
    )


def _page(topic: TopicImage, first: int, limit: int) -> range:
    return range(first, min(first + limit, len(topic.partitions)))


def _partition(image: MetadataImage, index: int, partition: PartitionImage) -> DescribeTopicPartitionsResponsePartition:
    has_leader = image.is_live(partition.leader)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if has_leader else NO_NODE,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[replica for replica in partition.replicas if not image.is_live(replica)],
    )
