"""AlterPartitionReassignments (key 45), versions 0-1: begin, replace or cancel reassignments (KIP-455, rows A2-A4).

Forwarded to the active controller. Answered when they have begun; ListPartitionReassignments lists those under way.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import MANY_ELEMENTS_MAX, RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.errors import KafkaError
from minikafka.metadata.image import MetadataImage
from minikafka.model import TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER),)

ELEMENTS_MAX: Final = MANY_ELEMENTS_MAX

Targets = dict[TopicPartition, tuple[int, ...] | None]


async def handle(
    request: AlterPartitionReassignmentsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
) -> AlterPartitionReassignmentsResponse:
    """One result per partition."""
    try:
        answer = await controller.call(
            request, AlterPartitionReassignmentsResponse, timeout_s=controller_timeout_s(request.timeout_ms)
        )
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.told)
    begun = _accepted(request, answer)
    await wait_until_seen(metadata, lambda image: _shows(image, begun))
    return answer


def _accepted(request: AlterPartitionReassignmentsRequest, answer: AlterPartitionReassignmentsResponse) -> Targets:
    accepted = {
        TopicPartition(topic.name, result.partition_index)
        for topic in answer.responses
        for result in topic.partitions
        if not result.error_code
    }
    return {
        tp: None if partition.replicas is None else tuple(partition.replicas)
        for topic in request.topics
        for partition in topic.partitions
        if (tp := TopicPartition(topic.name, partition.partition_index)) in accepted
    }


def _shows(image: MetadataImage, begun: Targets) -> bool:
    """True when the image has come to the change: each is under way to its target, there already, or cancelled."""
    for tp, replicas in begun.items():
        partition = image.partition(tp)
        if partition is None:
            continue
        if partition.is_reassigning if replicas is None else partition.target_replicas != replicas:
            return False
    return True
