"""Commands about configuration and producer ids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from minikafka.errors import ErrorCode
from minikafka.metadata.controller.commands.base import Command, Response


class AlterConfigOp(IntEnum):
    """What to do with a setting (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigOperation:
    """One change of a setting. ``op`` is an AlterConfigOp, or whatever number a client sent."""

    name: str
    op: int
    value: str | None = None


@dataclass(frozen=True, slots=True)
class ConfigAlteration:
    """The changes of one resource, of a ConfigResourceType or whatever number a client sent. With ``replace`` every
    setting that is not named goes back to its default (the older AlterConfigs, API 33)."""

    resource_type: int
    resource_name: str
    operations: tuple[ConfigOperation, ...]
    replace: bool = False


@dataclass(frozen=True, slots=True)
class AlterConfigsResult:
    """What came of one resource."""

    resource_type: int
    resource_name: str
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AlterConfigsResponse(Response):
    """One result per resource, in order; one asked for twice has one."""

    resources: tuple[AlterConfigsResult, ...]


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs(Command[AlterConfigsResponse]):
    """Change settings of topics, or dynamic settings of brokers (Kafka API 44, and 33 by ``replace``).

    Errors of a resource, of which then nothing is changed: UNKNOWN_TOPIC_OR_PARTITION, INVALID_CONFIG,
    INVALID_REQUEST.
    """

    TYPE: ClassVar[int] = 9
    RESPONSE: ClassVar[type[Response]] = AlterConfigsResponse
    resources: tuple[ConfigAlteration, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class AllocateProducerIdsResponse(Response):
    """The ids ``first_producer_id`` up to, not including, ``first_producer_id + length``; nobody else has them."""

    first_producer_id: int
    length: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Command[AllocateProducerIdsResponse]):
    """A broker needs producer ids to give out (Kafka API 67). Errors: STALE_BROKER_EPOCH."""

    TYPE: ClassVar[int] = 10
    RESPONSE: ClassVar[type[Response]] = AllocateProducerIdsResponse
    IS_BROKERS_OWN: ClassVar[bool] = True
    broker_id: int
    broker_epoch: int
