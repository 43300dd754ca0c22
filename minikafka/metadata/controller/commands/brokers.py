"""Commands about brokers: registration, heartbeats, fencing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from minikafka.metadata.controller.commands.base import Command, Response
from minikafka.model import Endpoint


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse(Response):
    """``broker_epoch`` names this registration in everything the broker sends from now on."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class RegisterBroker(Command[RegisterBrokerResponse]):
    """A broker process introduces itself; ``incarnation_id`` is new for each process.

    Errors: INCONSISTENT_CLUSTER_ID; DUPLICATE_BROKER_REGISTRATION while another incarnation's session lives.
    """

    TYPE: ClassVar[int] = 1
    RESPONSE: ClassVar[type[Response]] = RegisterBrokerResponse
    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: Mapping[str, Endpoint]
    rack: str | None = None
    log_dirs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BrokerHeartbeatResponse(Response):
    """``is_caught_up``: the broker has seen its own registration in the metadata log. Unless it asks otherwise it is
    unfenced then. ``should_shut_down``: its leaderships have moved and the others know."""

    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(Command[BrokerHeartbeatResponse]):
    """A broker is alive. ``current_metadata_offset`` is the offset of the last metadata record it has replayed (its
    image's ``offset``).

    Errors: STALE_BROKER_EPOCH when that registration is not the current one; the broker registers again.
    """

    TYPE: ClassVar[int] = 2
    RESPONSE: ClassVar[type[Response]] = BrokerHeartbeatResponse
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class FenceBrokerResponse(Response):
    """``was_fenced``: it had been fenced before."""

    was_fenced: bool


@dataclass(frozen=True, slots=True)
class FenceBroker(Command[FenceBrokerResponse]):
    """Someone knows that a broker's process is gone (its connection broke and its port refuses): do not wait for its
    session to end.

    Errors: STALE_BROKER_EPOCH when another incarnation has registered since.
    """

    TYPE: ClassVar[int] = 3
    RESPONSE: ClassVar[type[Response]] = FenceBrokerResponse
    broker_id: int
    broker_epoch: int
    reason: str = ""
