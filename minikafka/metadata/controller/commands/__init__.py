"""What is asked of the active controller, and what it answers.

Commands and responses are frozen dataclasses. They come from this node or, by a call on the CONTROLLER listener, from
any other: :meth:`Command.to_wire` and :func:`decode_command`, :meth:`Response.to_wire` and :func:`decode_response`
give and take msgpack values. A command that fails as a whole has no response: the controller raises KafkaError, which
the call carries. Where a command names several things, each has its own error in the response.

``base`` is what they share. ``brokers``, ``partitions``, ``reassignments``, ``topics`` and ``configs`` (with producer
ids) hold the commands about these.
"""

from __future__ import annotations

from minikafka.metadata.controller.commands.base import Command, Response, decode_command, decode_response
from minikafka.metadata.controller.commands.brokers import (
    AssignReplicasToDirs,
    AssignReplicasToDirsResponse,
    BrokerHeartbeat,
    BrokerHeartbeatResponse,
    DirectoryAssignment,
    DirectoryAssignmentResult,
    FenceBroker,
    FenceBrokerResponse,
    RegisterBroker,
    RegisterBrokerResponse,
    TopicReplicas,
    UnregisterBroker,
    UnregisterBrokerResponse,
)
from minikafka.metadata.controller.commands.configs import (
    AllocateProducerIds,
    AllocateProducerIdsResponse,
    AlterConfigOp,
    AlterConfigsResponse,
    AlterConfigsResult,
    ConfigAlteration,
    ConfigOperation,
    IncrementalAlterConfigs,
)
from minikafka.metadata.controller.commands.partitions import (
    AlterPartition,
    AlterPartitionResponse,
    AlterPartitionResult,
    ElectionType,
    ElectLeaders,
    ElectLeadersResponse,
    ElectLeadersResult,
    IsrChange,
    IsrMember,
)
from minikafka.metadata.controller.commands.reassignments import (
    AlterPartitionReassignments,
    AlterPartitionReassignmentsResponse,
    ReassignPartition,
    ReassignPartitionResult,
    ReassignTopic,
    ReassignTopicResult,
)
from minikafka.metadata.controller.commands.topics import (
    ConfigValue,
    CreatePartitions,
    CreatePartitionsResponse,
    CreatePartitionsResult,
    CreateTopics,
    CreateTopicsResponse,
    CreateTopicsResult,
    DeleteTopics,
    DeleteTopicsResponse,
    DeleteTopicsResult,
    NewPartitions,
    NewTopic,
    ReplicaAssignment,
    TopicReference,
)

__all__ = [
    "AllocateProducerIds",
    "AllocateProducerIdsResponse",
    "AlterConfigOp",
    "AlterConfigsResponse",
    "AlterConfigsResult",
    "AlterPartition",
    "AlterPartitionReassignments",
    "AlterPartitionReassignmentsResponse",
    "AlterPartitionResponse",
    "AlterPartitionResult",
    "AssignReplicasToDirs",
    "AssignReplicasToDirsResponse",
    "BrokerHeartbeat",
    "BrokerHeartbeatResponse",
    "Command",
    "ConfigAlteration",
    "ConfigOperation",
    "ConfigValue",
    "CreatePartitions",
    "CreatePartitionsResponse",
    "CreatePartitionsResult",
    "CreateTopics",
    "CreateTopicsResponse",
    "CreateTopicsResult",
    "DeleteTopics",
    "DeleteTopicsResponse",
    "DeleteTopicsResult",
    "DirectoryAssignment",
    "DirectoryAssignmentResult",
    "ElectLeaders",
    "ElectLeadersResponse",
    "ElectLeadersResult",
    "ElectionType",
    "FenceBroker",
    "FenceBrokerResponse",
    "IncrementalAlterConfigs",
    "IsrChange",
    "IsrMember",
    "NewPartitions",
    "NewTopic",
    "ReassignPartition",
    "ReassignPartitionResult",
    "ReassignTopic",
    "ReassignTopicResult",
    "RegisterBroker",
    "RegisterBrokerResponse",
    "ReplicaAssignment",
    "Response",
    "TopicReference",
    "TopicReplicas",
    "UnregisterBroker",
    "UnregisterBrokerResponse",
    "decode_command",
    "decode_response",
]
