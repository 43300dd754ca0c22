"""Commands about topics: creation, deletion, more partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.metadata.controller.commands.base import Command, Response
from minikafka.model import ZERO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """The brokers of one partition, the preferred leader first."""

    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A setting of a topic that is created."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create. -1 takes the node's default; with ``assignments`` both numbers must be -1."""

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    assignments: tuple[ReplicaAssignment, ...] = ()
    configs: tuple[ConfigValue, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTopicsResult:
    """What came of one topic."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: UUID = ZERO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class CreateTopicsResponse(Response):
    """One result per topic, in order; a name asked for twice has one."""

    topics: tuple[CreateTopicsResult, ...]


@dataclass(frozen=True, slots=True)
class CreateTopics(Command[CreateTopicsResponse]):
    """Create topics (Kafka API 19). ``validate_only`` answers as if it did.

    Errors of a topic: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION.
    """

    TYPE: ClassVar[int] = 6
    RESPONSE: ClassVar[type[Response]] = CreateTopicsResponse
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class TopicReference:
    """A topic by name, or by id when the name is None."""

    name: str | None = None
    topic_id: UUID = ZERO_TOPIC_ID


@dataclass(frozen=True, slots=True)
class DeleteTopicsResult:
    """What came of one topic; both names of it when it was known."""

    name: str | None
    topic_id: UUID
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DeleteTopicsResponse(Response):
    """One result per topic, in order."""

    topics: tuple[DeleteTopicsResult, ...]


@dataclass(frozen=True, slots=True)
class DeleteTopics(Command[DeleteTopicsResponse]):
    """Delete topics (Kafka API 20).

    Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, TOPIC_DELETION_DISABLED, INVALID_REQUEST.
    """

    TYPE: ClassVar[int] = 7
    RESPONSE: ClassVar[type[Response]] = DeleteTopicsResponse
    topics: tuple[TopicReference, ...]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """The number of partitions a topic is to have in all, and optionally where the new ones go."""

    name: str
    count: int
    assignments: tuple[tuple[int, ...], ...] | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsResult:
    """What came of one topic."""

    name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class CreatePartitionsResponse(Response):
    """One result per topic, in order; a name asked for twice has one."""

    topics: tuple[CreatePartitionsResult, ...]


@dataclass(frozen=True, slots=True)
class CreatePartitions(Command[CreatePartitionsResponse]):
    """Give topics more partitions (Kafka API 37).

    Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR, INVALID_REQUEST, POLICY_VIOLATION.
    """

    TYPE: ClassVar[int] = 8
    RESPONSE: ClassVar[type[Response]] = CreatePartitionsResponse
    topics: tuple[NewPartitions, ...]
    validate_only: bool = False
