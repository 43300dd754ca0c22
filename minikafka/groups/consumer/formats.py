"""Keys and values of the records of consumer groups, as messages with Kafka's names and fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from minikafka.wire.schema import Message, array, bytes_, int8, int32, int64, string, struct, uuid


class GroupKey(Message, versions="3-16", flexible="none"):
    """The key of what a group has once."""

    group_id: str = string("0+")


class NamedKey(Message, versions="3-16", flexible="none"):
    """The key of what a group has for each member id, or for each regular expression."""

    group_id: str = string("0+")
    name: str = string("0+")


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """Kind 3: the group's epoch."""

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


class ClassicProtocol(Message):
    """A protocol that a classic member supports."""

    name: str = string("0+")
    metadata: bytes = bytes_("0+")


class ClassicMemberMetadata(Message):
    """What only members of the classic protocol have."""

    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """Kind 5: a member and its subscription."""

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(string, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, "0+", nullable="0+", tag=0)


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """Kind 6: the epoch of the target assignment."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0)


class TargetTopicPartition(Message):
    """Partitions of a topic."""

    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """Kind 7: the target assignment of a member."""

    topic_partitions: list[TargetTopicPartition] = array(TargetTopicPartition, "0+")


class CurrentTopicPartitions(Message):
    """Partitions of a topic, with the member epochs in which they were assigned."""

    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(int32, "0+")
    assignment_epochs: list[int] | None = array(int32, "0+", nullable="0+", default=None, tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """Kind 8: what a member has now."""

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[CurrentTopicPartitions] = array(CurrentTopicPartitions, "0+")
    partitions_pending_revocation: list[CurrentTopicPartitions] = array(CurrentTopicPartitions, "0+")


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """Kind 16: the topics that a regular expression matches."""

    topics: list[str] = array(string, "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")


ValueMessage = (
    ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)

KEYS: Final[Mapping[int, type[GroupKey | NamedKey]]] = {
    3: GroupKey,
    5: NamedKey,
    6: GroupKey,
    7: NamedKey,
    8: NamedKey,
    16: NamedKey,
}
VALUES: Final[Mapping[int, type[ValueMessage]]] = {
    3: ConsumerGroupMetadataValue,
    5: ConsumerGroupMemberMetadataValue,
    6: ConsumerGroupTargetAssignmentMetadataValue,
    7: ConsumerGroupTargetAssignmentMemberValue,
    8: ConsumerGroupCurrentMemberAssignmentValue,
    16: ConsumerGroupRegularExpressionValue,
}


def key_of(kind: int, group_id: str, name: str) -> GroupKey | NamedKey:
    """The key of a row."""
    cls = KEYS[kind]
    return GroupKey(group_id=group_id) if cls is GroupKey else NamedKey(group_id=group_id, name=name)


def names_of(key: GroupKey | NamedKey) -> tuple[str, str]:
    """Group id and name in a key."""
    return key.group_id, key.name if isinstance(key, NamedKey) else ""
