"""ListPartitionReassignments (key 46), version 0: reassignments under way (KIP-455, row A4).

``replicas`` has all replicas of the partition: the target's first, then those to be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import MANY_ELEMENTS_MAX, RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.long_answers import LongAnswers
from minikafka.metadata.image import MetadataImage
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

AUTHORIZATION: Final = (Whole(AclOperation.DESCRIBE, ResourceType.CLUSTER),)

ELEMENTS_MAX: Final = MANY_ELEMENTS_MAX
LOOKS_OF_A_ROW: Final = 10
"""So many partitions that are looked at cost as much as a row."""


async def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext, metadata: Metadata, long_answers: LongAnswers
) -> None:
    """Answer from this node's image; partitions that are not being reassigned, or do not exist, are left out."""
    topics: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        image = metadata.image
        if request.topics is None:
            wanted: dict[str, list[int] | None] = dict.fromkeys(sorted(image.topics_by_name))
        else:
            wanted = {topic.name: topic.partition_indexes for topic in request.topics}
        for name, indexes in wanted.items():
            topic = image.topic(name)
            await answer.add(1 + (0 if topic is None else len(topic.partitions)) // LOOKS_OF_A_ROW)
            if partitions := list(_ongoing(image, name, indexes)):
                found = OngoingTopicReassignment(name=name, partitions=partitions)
                topics.append(await answer.encoded(found, len(partitions)))
        context.send_around(ListPartitionReassignmentsResponse(error_message=None), "topics", topics)


def _ongoing(image: MetadataImage, name: str, indexes: list[int] | None) -> Iterator[OngoingPartitionReassignment]:
    topic = image.topic(name)
    if topic is None:
        return
    for index in sorted(topic.partitions if indexes is None else topic.partitions.keys() & set(indexes)):
        partition = topic.partitions[index]
        if partition.is_reassigning:
            yield OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(partition.replicas),
                adding_replicas=list(partition.adding_replicas),
                removing_replicas=list(partition.removing_replicas),
            )
