"""AlterPartitionReassignments (key 45), versions 0-1: begin, replace or cancel reassignments (KIP-455, rows A2-A4).

Forwarded to the active controller; answered when they have begun, not when they are complete: what is under way is
listed by ListPartitionReassignments.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import (
    AlterPartitionReassignments,
    ReassignPartition,
    ReassignTopic,
    ReassignTopicResult,
)
from minikafka.metadata.image import MetadataImage
from minikafka.model import TopicPartition
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

Targets = dict[TopicPartition, tuple[int, ...] | None]


async def handle(
    request: AlterPartitionReassignmentsRequest,
    context: RequestContext,
    controller: ControllerClient,
    metadata: Metadata,
) -> AlterPartitionReassignmentsResponse:
    """One result per partition."""
    command = AlterPartitionReassignments(
        tuple(
            ReassignTopic(
                topic.name,
                tuple(
                    ReassignPartition(
                        partition.partition_index, None if partition.replicas is None else tuple(partition.replicas)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
        request.allow_replication_factor_change,
    )
    try:
        answer = await controller.call(command, timeout_s=controller_timeout_s(request.timeout_ms))
    except KafkaError as error:
        return AlterPartitionReassignmentsResponse(error_code=error.code, error_message=error.message)
    begun = _accepted(command, answer.results)
    await wait_until_seen(metadata, lambda image: _shows(image, begun))
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=command.allow_replication_factor_change,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=result.index, error_code=result.error, error_message=result.message
                    )
                    for result in topic.partitions
                ],
            )
            for topic in answer.results
        ],
    )


def _accepted(command: AlterPartitionReassignments, results: tuple[ReassignTopicResult, ...]) -> Targets:
    accepted = {
        TopicPartition(topic.name, result.index)
        for topic in results
        for result in topic.partitions
        if result.error is ErrorCode.NONE
    }
    return {
        where: partition.replicas
        for topic in command.topics
        for partition in topic.partitions
        if (where := TopicPartition(topic.name, partition.index)) in accepted
    }


def _shows(image: MetadataImage, begun: Targets) -> bool:
    """True when the image has come to the change: each is under way to its target, there already, or cancelled."""
    for where, replicas in begun.items():
        partition = image.partition(where)
        if partition is None:
            continue
        if partition.is_reassigning if replicas is None else partition.target_replicas != replicas:
            return False
    return True
