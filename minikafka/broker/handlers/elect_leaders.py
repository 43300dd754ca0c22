"""ElectLeaders (key 43), versions 0-2: elect preferred leaders, or any where there is none (KIP-460, row C4).

Forwarded to the active controller. Version 0 has preferred elections only. When all partitions are asked for, the
answer has those that needed an election.
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import controller_timeout_s, wait_until_seen
from minikafka.errors import ErrorCode, KafkaError
from minikafka.metadata.controller.commands import ElectionType, ElectLeaders, ElectLeadersResult
from minikafka.metadata.image import MetadataImage, PartitionImage
from minikafka.model import TopicPartition
from minikafka.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


async def handle(
    request: ElectLeadersRequest, context: RequestContext, controller: ControllerClient, metadata: Metadata
) -> ElectLeadersResponse:
    """One result per partition, by topic."""
    try:
        command = _command(request)
        answer = await controller.call(command, timeout_s=controller_timeout_s(request.timeout_ms))
    except KafkaError as error:
        return _refused(request, error)
    elected = [TopicPartition(each.topic, each.partition) for each in answer.partitions if not each.error]
    await wait_until_seen(metadata, lambda image: _shows(image, elected, command.election_type))
    return ElectLeadersResponse(replica_election_results=_by_topic(answer.partitions))


def _command(request: ElectLeadersRequest) -> ElectLeaders:
    try:
        election_type = ElectionType(request.election_type)
    except ValueError:
        message = f"election type {request.election_type} is neither preferred (0) nor unclean (1)"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message) from None
    if request.topic_partitions is None:
        return ElectLeaders(election_type)
    wanted = (TopicPartition(each.topic, index) for each in request.topic_partitions for index in each.partitions)
    return ElectLeaders(election_type, tuple(dict.fromkeys(wanted)))


def _refused(request: ElectLeadersRequest, error: KafkaError) -> ElectLeadersResponse:
    """The whole failed; each partition says so too, because version 0 has no other place for it."""
    results = (
        ElectLeadersResult(each.topic, index, error.code, error.message)
        for each in request.topic_partitions or ()
        for index in each.partitions
    )
    return ElectLeadersResponse(error_code=error.code, replica_election_results=_by_topic(tuple(results)))


def _by_topic(results: tuple[ElectLeadersResult, ...]) -> list[ReplicaElectionResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for each in results:
        result = PartitionResult(partition_id=each.partition, error_code=each.error, error_message=each.message)
        topics.setdefault(each.topic, []).append(result)
    return [ReplicaElectionResult(topic=topic, partition_result=partitions) for topic, partitions in topics.items()]


def _shows(image: MetadataImage, elected: list[TopicPartition], election_type: ElectionType) -> bool:
    partitions = [partition for where in elected if (partition := image.partition(where)) is not None]
    if election_type is ElectionType.UNCLEAN:
        return not any(partition.is_offline for partition in partitions)
    return all(_has_preferred_leader(partition) for partition in partitions)


def _has_preferred_leader(partition: PartitionImage) -> bool:
    return partition.leader in (partition.preferred_leader, partition.target_replicas[0])
