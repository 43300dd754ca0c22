"""Commands about partitions: ISR proposals and elections."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.metadata.controller.commands.base import Command, Response
from minikafka.model import NO_EPOCH, NO_NODE, TopicPartition


@dataclass(frozen=True, slots=True)
class IsrMember:
    """A proposed member of an ISR. ``broker_epoch`` is the one its fetches carried (KIP-903); -1 when the leader has
    not heard it, which is accepted only of a broker that is in the ISR already."""

    broker_id: int
    broker_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class IsrChange:
    """A leader's proposal for one partition (row R20), from the epochs it knows."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]


@dataclass(frozen=True, slots=True)
class AlterPartitionResult:
    """The state after the proposal, or why it changed nothing."""

    topic_id: UUID
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    leader: int = NO_NODE
    leader_epoch: int = NO_EPOCH
    isr: tuple[int, ...] = ()
    partition_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True)
class AlterPartitionResponse(Response):
    """One result per proposal, in order."""

    partitions: tuple[AlterPartitionResult, ...]


@dataclass(frozen=True, slots=True)
class AlterPartition(Command[AlterPartitionResponse]):
    """ISR proposals of one leader.

    Errors of the whole: STALE_BROKER_EPOCH. Of a proposal: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_CONTROLLER (the leader knows later epochs), FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION (an older partition
    epoch), INELIGIBLE_REPLICA (fenced, stopping, or another incarnation), INVALID_REQUEST.
    """

    TYPE: ClassVar[int] = 4
    RESPONSE: ClassVar[type[Response]] = AlterPartitionResponse
    IS_BROKERS_OWN: ClassVar[bool] = True
    broker_id: int
    broker_epoch: int
    partitions: tuple[IsrChange, ...]


class ElectionType(IntEnum):
    """Which leader is asked for (KIP-460)."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class ElectLeadersResult:
    """What came of one partition's election; ELECTION_NOT_NEEDED when its leader is the right one."""

    topic: str
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ElectLeadersResponse(Response):
    """One result per partition; when all were asked for, only those that needed an election."""

    partitions: tuple[ElectLeadersResult, ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders(Command[ElectLeadersResponse]):
    """Elect the preferred leader, or for an offline partition any live replica. None: of every partition.

    Errors of a partition: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """

    TYPE: ClassVar[int] = 5
    RESPONSE: ClassVar[type[Response]] = ElectLeadersResponse
    election_type: ElectionType
    partitions: tuple[TopicPartition, ...] | None = None
