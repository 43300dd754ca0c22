"""The records of the metadata log: what happened to the cluster, one fact each, replayed in order by every node.

A record's value is msgpack ``[type, version, field, ...]``. Types and fields are never renumbered or reused. A field is
only ever appended, with a default, and raises the version (``metadata={"since": n}``); a record of a lower version
decodes with the default. A higher version, or an unknown type, is refused with :class:`UnknownRecordError`: a node that
cannot understand the log must be upgraded, not guess. So that a rolling upgrade never meets this, newer records are
written only once ``MetadataVersionRecord`` says that every node knows them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final
from uuid import UUID

import msgpack  # type: ignore[import-untyped, unused-ignore]

from minikafka.metadata.codec import MalformedError, from_wire, to_wire
from minikafka.model import Endpoint

METADATA_VERSION: Final = 1
"""The newest metadata version this code knows."""


class UnknownRecordError(MalformedError):
    """A record of a type or version that this node does not know."""


class ConfigResourceType(IntEnum):
    """What a configuration belongs to (Kafka's numbers). A broker resource named "" is every broker."""

    TOPIC = 2
    BROKER = 4


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
    """An incarnation of a broker registered; ``broker_epoch`` is the offset of this record."""

    TYPE: ClassVar[int] = 3
    broker_id: int
    incarnation_id: UUID
    broker_epoch: int
    listeners: Mapping[str, Endpoint]
    rack: str | None = None
    log_dirs: tuple[str, ...] = ()
    fenced: bool = True
    in_controlled_shutdown: bool = False


@dataclass(frozen=True, slots=True)
class BrokerChangeRecord(Record):
    """A registered broker was fenced or unfenced, or began its controlled shutdown. None: unchanged."""

    TYPE: ClassVar[int] = 4
    broker_id: int
    broker_epoch: int
    fenced: bool | None = None
    in_controlled_shutdown: bool | None = None


@dataclass(frozen=True, slots=True)
class UnregisterBrokerRecord(Record):
    """A broker is no longer part of the cluster."""

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
    """A partition in full: at creation and in snapshots."""

    TYPE: ClassVar[int] = 8
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


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord(Record):
    """What changed of a partition; None: unchanged.

    Replaying one adds 1 to the partition epoch, and a ``leader`` adds 1 to the leader epoch even when it is the same
    broker again: a new term of leadership (row C4).
    """

    TYPE: ClassVar[int] = 9
    topic_id: UUID
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int | None = None
    replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


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


# A dataclass with slots is made of a plain class that may live on as a subclass: the later of two is the one.
_BY_TYPE: Final[dict[int, type[Record]]] = {cls.TYPE: cls for cls in Record.__subclasses__()}


def encode_record(record: Record) -> bytes:
    """The value of the record in the metadata log."""
    packed: bytes = msgpack.packb([record.TYPE, record.VERSION, *to_wire(record)], use_bin_type=True)
    return packed


def decode_record(value: bytes | memoryview) -> Record:
    """The record of a value; raises UnknownRecordError, or MalformedError for anything else that is wrong."""
    try:
        wire = msgpack.unpackb(value, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, msgpack.UnpackException) as error:
        raise MalformedError(f"not a metadata record: {error}") from None
    if not isinstance(wire, list) or len(wire) < 2 or type(wire[0]) is not int or type(wire[1]) is not int:
        raise MalformedError("not a metadata record: [type, version, ...] is expected")
    type_, version, *fields = wire
    cls = _BY_TYPE.get(type_)
    if cls is None:
        raise UnknownRecordError(f"metadata record type {type_} is unknown here; this node needs a newer minikafka")
    if not 0 <= version <= cls.VERSION:
        raise UnknownRecordError(
            f"{cls.__name__} version {version} is unknown here (newest: {cls.VERSION}); "
            "this node needs a newer minikafka"
        )
    expected = _field_count(cls, version)
    if len(fields) != expected:
        raise MalformedError(f"{cls.__name__} version {version} has {expected} fields, not {len(fields)}")
    return from_wire(cls, fields, fields_min=expected)


def _field_count(cls: type[Record], version: int) -> int:
    return sum(field.metadata.get("since", 0) <= version for field in dataclasses.fields(cls))
