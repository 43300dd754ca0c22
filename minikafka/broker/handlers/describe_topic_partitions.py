"""DescribeTopicPartitions (key 75), version 0: topics page by page, with eligible leader replicas (KIP-966).

Topics come in order of name. A page holds so many partitions as were asked for, up to 2,000, and a topic without any
counts as one: no answer is longer, whatever was named. The cursor names where the next page begins.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import ByHandler
from minikafka.broker.authorizer import Authorizer
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.metadata import OPERATIONS_ROWS, why_missing
from minikafka.broker.long_answers import LongAnswer, LongAnswers
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


async def handle(
    request: DescribeTopicPartitionsRequest,
    context: RequestContext,
    metadata: Metadata,
    authorizer: Authorizer,
    long_answers: LongAnswers,
) -> None:
    """Answer from this node's image."""
    image = metadata.image
    async with long_answers.prepare(context) as answer:
        names = sorted({topic.name for topic in request.topics})
        names = names or await _visible(image, context, authorizer, answer)
        if (cursor := request.cursor) is not None:
            if cursor.partition_index < 0 or (request.topics and cursor.topic_name not in names):
                refused = [Topic(name=name, error_code=ErrorCode.INVALID_REQUEST) for name in names[:LARGEST_PAGE]]
                context.send(DescribeTopicPartitionsResponse(topics=refused))
                return
            names = [name for name in names if name >= cursor.topic_name]
        room = min(max(request.response_partition_limit, 1), LARGEST_PAGE)
        head = DescribeTopicPartitionsResponse()
        topics: list[bytes] = []
        for name in names:
            first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
            if room <= 0:
                head.next_cursor = Cursor(topic_name=name, partition_index=first)
                break
            if not authorizer.permits(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
                denied = Topic(name=name, error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                topics.append(await answer.encoded(denied, 1))
                room -= 1
                continue
            described = _describe(image, name, first, room)
            described.topic_authorized_operations = authorizer.operations(context, ResourceType.TOPIC, name)
            told = len(described.partitions)
            topics.append(await answer.encoded(described, 1 + told + OPERATIONS_ROWS))
            room -= max(1, told)
            topic = image.topic(name)
            if topic is not None and first + told < len(topic.partitions):
                head.next_cursor = Cursor(topic_name=name, partition_index=first + told)
                break
        context.send_around(head, "topics", topics)


async def _visible(
    image: MetadataImage, context: RequestContext, authorizer: Authorizer, answer: LongAnswer
) -> list[str]:
    names = []
    for name in sorted(image.topics_by_name):
        await answer.add(1)
        if authorizer.sees(context, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            names.append(name)
    return names


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
