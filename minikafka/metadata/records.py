"""The records of the metadata log: one fact each, replayed in order by every node.

A record's value is msgpack ``[type, version, field, ...]``. Types and fields are never renumbered or reused. New
fields are appended, with a default, and raise the version (``since(n)``). A record of a lower version decodes with the
default. A record is written in the lowest version that has all its values. So a node meets a newer version only with
a fact that is new to it. Then, as for an unknown type, it raises :class:`UnknownRecordError`: it must be upgraded.

``MetadataVersionRecord`` has the version that may be written. Version 2 added log directories (KIP-858) and the
registration that a broker continues, version 3 the last unclean election of a partition, version 4 levels of features,
version 5 quotas of clients, version 6 settings of groups, version 7 the leader epoch that new partitions begin with,
version 8 SCRAM credentials of users, and ACLs. A new controller raises it to its own version; all nodes are upgraded
together. What a version adds to the meaning of earlier types counts from its ``MetadataVersionRecord`` on: some nodes
replay records that others have in a snapshot, which their older code wrote.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Final, NamedTuple
from uuid import UUID

import msgpack  # type: ignore[import-untyped, unused-ignore]

from minikafka.metadata.codec import MalformedError, from_wire, to_wire
from minikafka.model import NO_EPOCH, Endpoint
from minikafka.sasl.scram import ScramMechanism
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

METADATA_VERSION: Final = 8
"""The newest metadata version this code knows."""

FIRST_LEADER_EPOCHS: Final = 7
"""The version from which on deletions raise the leader epoch that new partitions begin with (decision 0031)."""


class UnknownRecordError(MalformedError):
    """A record of an unknown type or version."""


def since(version: int, default: Any) -> Any:
    """A field of records of that version and later."""
    return field(default=default, metadata={"since": version})


class ConfigResourceType(IntEnum):
    """Type of a configuration's owner (Kafka's numbers). A broker resource named "" is every broker."""

    TOPIC = 2
    BROKER = 4
    GROUP = 32


@dataclass(frozen=True, slots=True)
class Record:
    """Base of all records."""

    TYPE: ClassVar[int]
    VERSION: ClassVar[int] = 0


@dataclass(frozen=True, slots=True)
class MetadataVersionRecord(Record):
    """The metadata version in force: which records may be written."""

    TYPE: ClassVar[int] = 1
    metadata_version: int


@dataclass(frozen=True, slots=True)
class ClusterIdRecord(Record):
    """The cluster this log belongs to; written once, first."""

    TYPE: ClassVar[int] = 2
    cluster_id: str


@dataclass(frozen=True, slots=True)
class RegisterBrokerRecord(Record):
    """An incarnation of a broker registered; ``broker_epoch`` is the offset of this record.

    ``log_dirs`` are the ids of its online log directories (none were written before version 1). They were last written
    to under the registration ``previous_broker_epoch``; -1: another than the one before, or this is the first.
    """

    TYPE: ClassVar[int] = 3
    VERSION: ClassVar[int] = 1
    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    listeners: Mapping[str, Endpoint]
    rack: str | None = None
    log_dirs: tuple[UUID, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False
    previous_broker_epoch: int = since(1, NO_EPOCH)


@dataclass(frozen=True, slots=True)
class BrokerChangeRecord(Record):
    """A registered broker was fenced or unfenced, began its controlled shutdown, or lost log directories (``log_dirs``
    are those still online). None: unchanged."""

    TYPE: ClassVar[int] = 4
    VERSION: ClassVar[int] = 1
    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None
    log_dirs: tuple[UUID, ...] | None = since(1, None)


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord(Record):
    """A broker was removed from the cluster."""

    TYPE: ClassVar[int] = 5
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class TopicRecord(Record):
    """A topic was created; its partitions follow."""

    TYPE: ClassVar[int] = 6
    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord(Record):
    """A topic was deleted, with its partitions and configuration."""

    TYPE: ClassVar[int] = 7
    topic_id: UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord(Record):
    """A partition in full: at creation and in snapshots. ``directories`` has the log directory of each replica
    (KIP-858); it is empty when none is known. ``unclean_leader_epoch`` is the epoch that the last unclean election
    began, ``first_leader_epoch`` the one that the partition began with (decision 0031)."""

    TYPE: ClassVar[int] = 8
    VERSION: ClassVar[int] = 3
    topic_id: UUID
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    directories: tuple[UUID, ...] = since(1, ())
    unclean_leader_epoch: int = since(2, NO_EPOCH)
    first_leader_epoch: int = since(3, 0)


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord(Record):
    """A change of a partition; None: unchanged.

    Its replay adds 1 to the partition epoch. A ``leader`` adds 1 to the leader epoch, even when it is the same broker
    again: every election begins a new leader epoch (row C4).
    """

    TYPE: ClassVar[int] = 9
    VERSION: ClassVar[int] = 2
    topic_id: UUID
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    directories: tuple[UUID, ...] | None = since(1, None)
    unclean_leader_epoch: int | None = since(2, None)


@dataclass(frozen=True, slots=True)
class ConfigRecord(Record):
    """A configuration value was set, or removed (None)."""

    TYPE: ClassVar[int] = 10
    resource_type: ConfigResourceType
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class ProducerIdsRecord(Record):
    """Producer ids below ``next_producer_id`` are given out, the last block to that broker."""

    TYPE: ClassVar[int] = 11
    broker_id: int
    broker_epoch: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class FeatureLevelRecord(Record):
    """The level of a feature that is in force; 0: none."""

    TYPE: ClassVar[int] = 12
    name: str
    level: int


class QuotaPart(NamedTuple):
    """A part of whom a quota is for: ``user`` or ``client-id``, by name; None: those without a quota of their own."""

    type: str
    name: str | None


QuotaEntity = tuple[QuotaPart, ...]
"""Whom a quota is for; parts in the order of their types, each type at most once."""


@dataclass(frozen=True, slots=True)
class ClientQuotaRecord(Record):
    """A quota of clients was set, or removed (None)."""

    TYPE: ClassVar[int] = 13
    entity: tuple[QuotaPart, ...]
    key: str
    value: float | None


@dataclass(frozen=True, slots=True)
class FirstLeaderEpochRecord(Record):
    """The leader epoch that new partitions begin with. Written in snapshots only: deletions tell it otherwise."""

    TYPE: ClassVar[int] = 14
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord(Record):
    """A user's password by a mechanism was set: what a node needs to check it. No text of the record shows the keys."""

    TYPE: ClassVar[int] = 15
    user: str
    mechanism: ScramMechanism
    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord(Record):
    """A user's password by a mechanism was removed."""

    TYPE: ClassVar[int] = 16
    user: str
    mechanism: ScramMechanism


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord(Record):
    """An ACL was created."""

    TYPE: ClassVar[int] = 17
    acl_id: UUID
    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    @classmethod
    def of(cls, acl: AclBinding) -> AccessControlEntryRecord:
        """The record of this ACL."""
        return cls(acl.acl_id, *acl)

    @property
    def acl(self) -> AclBinding:
        """What was created."""
        return AclBinding(
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        )


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord(Record):
    """An ACL was deleted."""

    TYPE: ClassVar[int] = 18
    acl_id: UUID


class _Shape(NamedTuple):
    """A record type's fields over its versions."""

    cls: type[Record]
    counts: tuple[int, ...]
    """By version."""
    later: tuple[tuple[str, int, Any], ...]
    """(name, version, default) of the fields that version 0 has not."""


def _shape_of(cls: type[Record]) -> _Shape:
    each = [(one.name, one.metadata.get("since", 0), one.default) for one in dataclasses.fields(cls)]
    counts = tuple(sum(version <= top for _, version, _ in each) for top in range(cls.VERSION + 1))
    return _Shape(cls, counts, tuple(one for one in each if one[1]))


# A dataclass with slots is made of a plain class that may live on as a subclass: the later of two is the one.
_BY_TYPE: Final = {cls.TYPE: _shape_of(cls) for cls in {cls.TYPE: cls for cls in Record.__subclasses__()}.values()}


def encode_record(record: Record) -> bytes:
    """The value of the record in the metadata log, in the lowest version that has all its values."""
    shape = _BY_TYPE[record.TYPE]
    version = max((since for name, since, default in shape.later if getattr(record, name) != default), default=0)
    fields = to_wire(record)[: shape.counts[version]]
    packed: bytes = msgpack.packb([record.TYPE, version, *fields], use_bin_type=True)
    return packed


def decode_record(value: bytes | memoryview) -> Record:
    """Decode a value. Raises UnknownRecordError, or MalformedError for any other defect."""
    try:
        wire = msgpack.unpackb(value, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise MalformedError(f"not a metadata record: {error}") from None
    if not isinstance(wire, list) or len(wire) < 2 or type(wire[0]) is not int or type(wire[1]) is not int:
        raise MalformedError("not a metadata record: [type, version, ...] is expected")
    type_, version, *fields = wire
    shape = _BY_TYPE.get(type_)
    if shape is None:
        raise UnknownRecordError(f"metadata record type {type_} is unknown here; this node needs a newer minikafka")
    cls, counts, _ = shape
    if not 0 <= version <= cls.VERSION:
        raise UnknownRecordError(
            f"{cls.__name__} version {version} is unknown here (newest: {cls.VERSION}); "
            "this node needs a newer minikafka"
        )
    expected = counts[version]
    if len(fields) != expected:
        raise MalformedError(f"{cls.__name__} version {version} has {expected} fields, not {len(fields)}")
    return from_wire(cls, fields, fields_min=expected)
