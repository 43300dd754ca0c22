"""Short words for what the controller is asked, and for its answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from minikafka.model import ZERO_TOPIC_ID, Endpoint, TopicPartition
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from minikafka.wire.messages.alter_partition import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResult,
    AlterPartitionTopic,
    BrokerState,
)
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    PartitionResult,
    TopicData,
)
from minikafka.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from minikafka.wire.messages.broker_registration import BrokerRegistrationRequest, Listener, TopicReplicas
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from minikafka.wire.messages.elect_leaders import PartitionResult as ElectionResult
from minikafka.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from minikafka.wire.messages.unregister_broker import UnregisterBrokerRequest

# -- brokers ----------------------------------------------------------------------------------------------------------


def register(listeners: Mapping[str, Endpoint], **fields: Any) -> BrokerRegistrationRequest:
    at = [Listener(name=name, host=endpoint.host, port=endpoint.port) for name, endpoint in listeners.items()]
    return BrokerRegistrationRequest(listeners=at, **{name: _plain(value) for name, value in fields.items()})


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def whole(topic_id: UUID, *partitions: int) -> TopicReplicas:
    return TopicReplicas(topic_id=topic_id, partitions=list(partitions))


def heartbeat(broker_id: int, broker_epoch: int, metadata_offset: int, **wishes: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=broker_epoch,
        current_metadata_offset=metadata_offset,
        **{name: _plain(value) for name, value in wishes.items()},
    )


def unregister(broker_id: int) -> UnregisterBrokerRequest:
    return UnregisterBrokerRequest(broker_id=broker_id)


def placed(topic_id: UUID, partition: int, directory: UUID) -> DirectoryData:
    topic = TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=partition)])
    return DirectoryData(id=directory, topics=[topic])


def assign(broker_id: int, broker_epoch: int, *assignments: DirectoryData) -> AssignReplicasToDirsRequest:
    return AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=broker_epoch, directories=list(assignments))


def assigned(response: AssignReplicasToDirsResponse) -> list[PartitionResult]:
    return [result for one in response.directories for topic in one.topics for result in topic.partitions]


def allocate(broker_id: int, broker_epoch: int) -> AllocateProducerIdsRequest:
    return AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)


# -- partitions -------------------------------------------------------------------------------------------------------


def member(broker_id: int, broker_epoch: int = -1) -> BrokerState:
    return BrokerState(broker_id=broker_id, broker_epoch=broker_epoch)


def proposal(
    topic_id: UUID, partition: int, leader_epoch: int, partition_epoch: int, isr: Iterable[BrokerState]
) -> AlterPartitionTopic:
    data = AlterPartitionData(
        partition_index=partition,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        new_isr_with_epochs=list(isr),
    )
    return AlterPartitionTopic(topic_id=topic_id, partitions=[data])


def propose(broker_id: int, broker_epoch: int, *proposals: AlterPartitionTopic) -> AlterPartitionRequest:
    return AlterPartitionRequest(broker_id=broker_id, broker_epoch=broker_epoch, topics=list(proposals))


def proposed(response: AlterPartitionResponse) -> list[AlterPartitionResult]:
    return [result for topic in response.topics for result in topic.partitions]


def elect(election_type: int, partitions: Iterable[TopicPartition] | None = None) -> ElectLeadersRequest:
    wanted = None if partitions is None else [TopicPartitions(topic=t, partitions=[i]) for t, i in partitions]
    return ElectLeadersRequest(election_type=election_type, topic_partitions=wanted)


def elected(response: ElectLeadersResponse) -> list[ElectionResult]:
    return [result for topic in response.replica_election_results for result in topic.partition_result]


def wish(topic: str, *partitions: tuple[int, Sequence[int] | None]) -> ReassignableTopic:
    """Index and replicas of each; None cancels."""
    return ReassignableTopic(
        name=topic,
        partitions=[
            ReassignablePartition(partition_index=index, replicas=None if replicas is None else list(replicas))
            for index, replicas in partitions
        ],
    )


def reassign(*wishes: ReassignableTopic, **fields: bool) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(topics=list(wishes), **fields)


# -- topics -----------------------------------------------------------------------------------------------------------


def topic(
    name: str,
    num_partitions: int = -1,
    replication_factor: int = -1,
    assignments: Iterable[tuple[int, Sequence[int]]] = (),
    configs: Iterable[tuple[str, str | None]] = (),
) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=[CreatableReplicaAssignment(partition_index=i, broker_ids=list(on)) for i, on in assignments],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs],
    )


def create(*topics: CreatableTopic, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), validate_only=validate_only)


def named(name: str | None = None, topic_id: UUID = ZERO_TOPIC_ID) -> DeleteTopicState:
    return DeleteTopicState(name=name, topic_id=topic_id)


def delete(*topics: DeleteTopicState) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=list(topics))


def more(name: str, count: int, assignments: Iterable[Sequence[int]] | None = None) -> CreatePartitionsTopic:
    given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=list(one)) for one in assignments]
    return CreatePartitionsTopic(name=name, count=count, assignments=given)


def extend(*topics: CreatePartitionsTopic, validate_only: bool = False) -> CreatePartitionsRequest:
    return CreatePartitionsRequest(topics=list(topics), validate_only=validate_only)


def change(resource_type: int, name: str, *operations: tuple[str, int, str | None]) -> AlterConfigsResource:
    return AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=[AlterableConfig(name=name, config_operation=op, value=value) for name, op, value in operations],
    )


def alter(*resources: AlterConfigsResource, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(resources=list(resources), validate_only=validate_only)
