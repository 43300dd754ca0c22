"""Commands about brokers: registration, heartbeats, fencing, log directories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from uuid import UUID

from minikafka.errors import ErrorCode
from minikafka.metadata.controller.commands.base import Command, Response
from minikafka.model import NO_EPOCH, Endpoint


@dataclass(frozen=True, slots=True)
class RegisterBrokerResponse(Response):
    """``broker_epoch`` names this registration in everything the broker sends from now on."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicReplicas:
    """Some replicas of a broker, by topic."""

    topic_id: UUID
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RegisterBroker(Command[RegisterBrokerResponse]):
    """A broker process introduces itself; ``incarnation_id`` is new for each process, ``log_dirs`` are the ids of its
    online log directories (KIP-858).

    ``previous_broker_epoch`` names the registration under which what is on its disks was written, if nothing of it can
    be lost: its process was stopped in order, or killed while the machine ran on. -1 when what was not synced may be
    lost, by a power cut: it leaves ISRs and ELRs then, but of ``synced_topics``, of which its logs hold nothing that
    was not synced (KIP-966). Less when anything may be lost: a disk was changed.

    ``recorded_broker_epoch`` is the registration that its log directories name, whatever was lost of it. If the broker
    has lived under a later one, they are an older copy, put back: nothing in them counts, ``synced_topics`` neither.

    ``whole`` names the replicas whose logs are there and undamaged. Every other replica of the broker leaves ISR and
    ELR with the registration: its log is missing, damaged, or cannot be told to be its own. None: not told.

    Errors: INCONSISTENT_CLUSTER_ID; DUPLICATE_BROKER_REGISTRATION while another incarnation's session lives.
    """

    TYPE: ClassVar[int] = 1
    RESPONSE: ClassVar[type[Response]] = RegisterBrokerResponse
    IS_BROKERS_OWN: ClassVar[bool] = True
    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: Mapping[str, Endpoint]
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    previous_broker_epoch: int = NO_EPOCH
    synced_topics: tuple[UUID, ...] = ()
    whole: tuple[TopicReplicas, ...] | None = None
    recorded_broker_epoch: int = NO_EPOCH


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
    image's ``offset``). ``offline_log_dirs`` are ids of directories that failed since it registered: leaderships and
    places in ISRs are taken from its replicas there, until it registers anew.

    Errors: STALE_BROKER_EPOCH when that registration is not the current one; the broker registers again.
    """

    TYPE: ClassVar[int] = 2
    RESPONSE: ClassVar[type[Response]] = BrokerHeartbeatResponse
    IS_BROKERS_OWN: ClassVar[bool] = True
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool = False
    want_shutdown: bool = False
    offline_log_dirs: tuple[UUID, ...] = ()


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


@dataclass(frozen=True, slots=True)
class UnregisterBrokerResponse(Response):
    """``broker_epoch`` of the registration that is gone."""

    broker_epoch: int


@dataclass(frozen=True, slots=True)
class UnregisterBroker(Command[UnregisterBrokerResponse]):
    """A broker is gone for good (Kafka API 64). Whatever it has is no longer counted on.

    Errors: BROKER_ID_NOT_REGISTERED; INVALID_REQUEST while it is alive.
    """

    TYPE: ClassVar[int] = 12
    RESPONSE: ClassVar[type[Response]] = UnregisterBrokerResponse
    broker_id: int


@dataclass(frozen=True, slots=True)
class DirectoryAssignment:
    """A replica of the calling broker, and the id of the log directory it is in."""

    topic_id: UUID
    partition: int
    directory: UUID


@dataclass(frozen=True, slots=True)
class DirectoryAssignmentResult:
    """What came of one assignment."""

    topic_id: UUID
    partition: int
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirsResponse(Response):
    """One result per assignment, in order."""

    results: tuple[DirectoryAssignmentResult, ...]


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirs(Command[AssignReplicasToDirsResponse]):
    """A broker tells in which of its log directories replicas are (Kafka API 73, KIP-858).

    A directory that is not online takes the replica offline.

    Errors of the whole: STALE_BROKER_EPOCH. Of an assignment: UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_LEADER_OR_FOLLOWER (no replica of it is placed there).
    """

    TYPE: ClassVar[int] = 13
    RESPONSE: ClassVar[type[Response]] = AssignReplicasToDirsResponse
    IS_BROKERS_OWN: ClassVar[bool] = True
    broker_id: int
    broker_epoch: int
    assignments: tuple[DirectoryAssignment, ...]
