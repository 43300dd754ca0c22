"""ElectLeaders (key 43), versions 0-2: preferred election, or unclean election without a leader (KIP-460, row C4).

Forwarded to the active controller. Version 0 has preferred elections only. A request for all partitions is answered
with those that needed an election.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Whole
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.errors import KafkaError
from minikafka.metadata.controller.elections import ElectionType
from minikafka.metadata.image import MetadataImage, PartitionImage
from minikafka.model import TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

AUTHORIZATION: Final = (Whole(AclOperation.ALTER, ResourceType.CLUSTER),)


async def handle(
    request: ElectLeadersRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> ElectLeadersResponse:
    """One result per partition, by topic."""
    try:
        answer = await controller.call(
            request, ElectLeadersResponse, timeout_s=controller_timeout_s(request.timeout_ms)
        )
    except KafkaError as error:
        return _refused(request, error)
    elected = [
        TopicPartition(topic.topic, each.partition_id)
        for topic in answer.replica_election_results
        for each in topic.partition_result
        if not each.error_code
    ]
    is_unclean = request.election_type == ElectionType.UNCLEAN
    await wait_until_seen(metadata, lambda image: _shows(image, elected, is_unclean=is_unclean))
    return answer


def _refused(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The whole failed; each partition says so too, because version 0 has no other place for it."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=error.code, error_message=error.told)
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


def _shows(image: MetadataImage, elected: list[TopicPartition], *, is_unclean: bool) -> bool:
    partitions = [partition for tp in elected if (partition := image.partition(tp)) is not None]
    if is_unclean:
        return not any(partition.is_offline for partition in partitions)
    return all(_has_preferred_leader(partition) for partition in partitions)


def _has_preferred_leader(partition: PartitionImage) -> bool:
    return partition.leader in (partition.preferred_leader, partition.target_replicas[0])
