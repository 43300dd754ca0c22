"""The records of consumer groups in ``__consumer_offsets``, in Kafka's own formats.

A group is seven tables, and a record is a row of one: its kind (the int16 that its key begins with) names the table,
the group and a name (of the member, of the expression, or none) are the rest of the key. A record without a value
removes the row (row G8). Kind 4, the partitions of topics, is read by nobody since Kafka 4.1, which has a hash instead
(KIP-1101): it is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.groups.consumer import formats
from minikafka.wire.schema import Buffer
from minikafka.wire.versioned import Record, decode_versioned, encode_versioned, version_of

Partitions = Mapping[UUID, frozenset[int]]
"""Partition indexes by topic id; no topic without partitions."""
Owned = Mapping[UUID, Mapping[int, int]]
"""By topic id, partition index -> the member epoch in which it was assigned (KIP-1251)."""

NO_PARTITIONS: Final[Owned] = {}
NO_TIMEOUT: Final = -1


class Kind(IntEnum):
    """The tables."""

    GROUP = 3
    MEMBER = 5
    TARGET_METADATA = 6
    TARGET = 7
    CURRENT = 8
    REGULAR_EXPRESSION = 16


class MemberState(IntEnum):
    """How far a member is on its way to its target assignment; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


class GroupEpoch(NamedTuple):
    """The epoch of a group, and the hash of its topics in that epoch."""

    epoch: int = 0
    metadata_hash: int = 0


class TargetMetadata(NamedTuple):
    """The group epoch that the target assignment was made for, and when (wall clock)."""

    assignment_epoch: int = 0
    timestamp_ms: int = 0


class ClassicMetadata(NamedTuple):
    """What a member of the classic protocol has told."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> frozenset[str]:
        """Of its protocols; a hostile member may name one twice."""
        return frozenset(name for name, _ in self.protocols)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a member wants, as it has told. An empty ``topic_regex`` is none; ``topic_names`` are sorted."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str = ""
    rebalance_timeout_ms: int = NO_TIMEOUT
    server_assignor: str | None = None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a member has now: its epochs, and the partitions that are its own until it has revoked them."""

    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: Owned = field(default_factory=dict)
    pending_revocation: Owned = field(default_factory=dict)

    def epoch_of(self, topic_id: UUID, partition: int) -> int | None:
        """The member epoch in which it got the partition; None when that is not its own."""
        for owned in (self.assigned, self.pending_revocation):
            epoch = owned.get(topic_id, {}).get(partition)
            if epoch is not None:
                return epoch
        return None


NEW_MEMBER: Final = CurrentAssignment()


class ResolvedRegex(NamedTuple):
    """The topics that an expression matches, sorted; in which version of the metadata, and when."""

    topics: tuple[str, ...]
    version: int = 0
    timestamp_ms: int = 0


Value = GroupEpoch | TargetMetadata | Subscription | CurrentAssignment | Partitions | ResolvedRegex


class ConsumerGroupRecord(NamedTuple):
    """A row of a table (or, without a value, its removal)."""

    kind: Kind
    group_id: str
    name: str
    value: Value | None

    def encode(self) -> Record:
        """As key and value bytes."""
        key = encode_versioned(formats.key_of(self.kind, self.group_id, self.name), self.kind)
        return Record(key, None if self.value is None else encode_versioned(_message(self.value), 0))


def decode_consumer_record(key: Buffer, value: Buffer | None) -> ConsumerGroupRecord | None:
    """Decode a record; None for a kind that is not one of these. WireError for malformed bytes."""
    number = version_of(key)
    if number not in formats.KEYS:
        return None
    kind = Kind(number)
    group_id, name = formats.names_of(decode_versioned(formats.KEYS[kind], key))
    row = None if value is None else _value(decode_versioned(formats.VALUES[kind], value))
    return ConsumerGroupRecord(kind, group_id, name, row)


def _message(value: Value) -> formats.ValueMessage:
    match value:
        case GroupEpoch(epoch, metadata_hash):
            return formats.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash)
        case TargetMetadata(epoch, timestamp_ms):
            return formats.ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=timestamp_ms
            )
        case ResolvedRegex(topics, version, timestamp_ms):
            return formats.ConsumerGroupRegularExpressionValue(
                topics=list(topics), version=version, timestamp=timestamp_ms
            )
        case Subscription():
            return _subscription_message(value)
        case CurrentAssignment():
            return formats.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=value.member_epoch,
                previous_member_epoch=value.previous_member_epoch,
                state=value.state,
                assigned_partitions=_owned_messages(value.assigned),
                partitions_pending_revocation=_owned_messages(value.pending_revocation),
            )
    return formats.ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            formats.TargetTopicPartition(topic_id=topic_id, partitions=sorted(partitions))
            for topic_id, partitions in sorted(value.items())
        ]
    )


def _subscription_message(value: Subscription) -> formats.ConsumerGroupMemberMetadataValue:
    classic = value.classic
    return formats.ConsumerGroupMemberMetadataValue(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=list(value.topic_names),
        subscribed_topic_regex=value.topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic_member_metadata=None
        if classic is None
        else formats.ClassicMemberMetadata(
            session_timeout_ms=classic.session_timeout_ms,
            supported_protocols=[
                formats.ClassicProtocol(name=name, metadata=metadata) for name, metadata in classic.protocols
            ],
        ),
    )


def _owned_messages(owned: Owned) -> list[formats.CurrentTopicPartitions]:
    return [
        formats.CurrentTopicPartitions(
            topic_id=topic_id,
            partitions=(indexes := sorted(partitions)),
            assignment_epochs=[partitions[index] for index in indexes],
        )
        for topic_id, partitions in sorted(owned.items())
    ]


def _value(message: formats.ValueMessage) -> Value:
    match message:
        case formats.ConsumerGroupMetadataValue():
            return GroupEpoch(message.epoch, message.metadata_hash)
        case formats.ConsumerGroupTargetAssignmentMetadataValue():
            return TargetMetadata(message.assignment_epoch, message.assignment_timestamp)
        case formats.ConsumerGroupRegularExpressionValue():
            return ResolvedRegex(tuple(sorted(message.topics)), message.version, message.timestamp)
        case formats.ConsumerGroupMemberMetadataValue():
            return _subscription(message)
        case formats.ConsumerGroupCurrentMemberAssignmentValue():
            return CurrentAssignment(
                member_epoch=message.member_epoch,
                previous_member_epoch=message.previous_member_epoch,
                state=_state(message.state),
                assigned=_owned(message.assigned_partitions, message.member_epoch),
                pending_revocation=_owned(message.partitions_pending_revocation, message.member_epoch),
            )
        case formats.ConsumerGroupTargetAssignmentMemberValue():
            return {each.topic_id: frozenset(each.partitions) for each in message.topic_partitions if each.partitions}


def _state(number: int) -> MemberState:
    known = {state.value: state for state in MemberState}
    return known.get(number, MemberState.UNKNOWN)


def _subscription(message: formats.ConsumerGroupMemberMetadataValue) -> Subscription:
    classic = message.classic_member_metadata
    return Subscription(
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        client_id=message.client_id,
        client_host=message.client_host,
        topic_names=tuple(sorted(message.subscribed_topic_names)),
        topic_regex=message.subscribed_topic_regex or "",
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        server_assignor=message.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        ),
    )


def _owned(topics: list[formats.CurrentTopicPartitions], member_epoch: int) -> Owned:
    """Kafka before 4.3 writes no epochs: then the partitions count as assigned in the member's present epoch."""
    owned = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        if topic.partitions:
            owned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return owned
