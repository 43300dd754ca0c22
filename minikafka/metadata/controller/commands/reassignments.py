"""Commands about where replicas are: reassignment (KIP-455)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minikafka.errors import ErrorCode
from minikafka.metadata.controller.commands.base import Command, Response


@dataclass(frozen=True, slots=True)
class ReassignPartition:
    """The brokers a partition is to be on, the preferred leader first; None cancels what is in progress."""

    index: int
    replicas: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class ReassignTopic:
    """Partitions of one topic to reassign."""

    name: str
    partitions: tuple[ReassignPartition, ...]


@dataclass(frozen=True, slots=True)
class ReassignPartitionResult:
    """What came of one partition."""

    index: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ReassignTopicResult:
    """What came of one topic's partitions, in order."""

    name: str
    partitions: tuple[ReassignPartitionResult, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignmentsResponse(Response):
    """One result per topic, in order."""

    results: tuple[ReassignTopicResult, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments(Command[AlterPartitionReassignmentsResponse]):
    """Begin, replace or cancel reassignments (Kafka API 45, rows A2-A4). Each partition on its own; what is in progress
    is listed from the image (``adding_replicas``, ``removing_replicas``).

    Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (the metadata log's topic),
    INVALID_REPLICA_ASSIGNMENT (none, one twice, one that is not alive; or the only replicas that have the records would
    go), INVALID_REPLICATION_FACTOR (unless ``allow_replication_factor_change``), NO_REASSIGNMENT_IN_PROGRESS (to
    cancel), INVALID_REQUEST (named twice), POLICY_VIOLATION (a broker would have too many replicas).
    """

    TYPE: ClassVar[int] = 11
    RESPONSE: ClassVar[type[Response]] = AlterPartitionReassignmentsResponse
    topics: tuple[ReassignTopic, ...]
    allow_replication_factor_change: bool = True
