"""The records of ``__consumer_offsets``, in Kafka's own key and value formats.

A key begins with an int16, its type: 0 and 1 are committed offsets, 2 is a classic group's metadata, and those of
consumer groups are in :mod:`minikafka.groups.consumer.records`. Others belong to group protocols that are not supported
here. A value begins with the int16 version of its format. A record without a value is a tombstone.

Versions written: 3 for group values, which every Kafka since 2.3 reads; 4 for offset values, the first with the topic's
id (as Kafka 4.1 writes them); 1 for an offset with an explicit expiry (OffsetCommit before version 5), the only version
with that field. Versions read: all that Kafka has had, 0 to 4.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from minikafka.groups.consumer.records import ConsumerGroupRecord, decode_consumer_record
from minikafka.model import NO_EPOCH, NO_TIMESTAMP, TopicPartition
from minikafka.wire.schema import Buffer, Message, array, bytes_, int32, int64, string, uuid
from minikafka.wire.versioned import Record, decode_versioned, encode_versioned, version_of

OFFSET_COMMIT_KEY: Final = (0, 1)
GROUP_METADATA_KEY: Final = 2
OFFSET_COMMIT_KEY_WRITTEN: Final = 1
OFFSET_COMMIT_VALUE_WRITTEN: Final = 4
OFFSET_COMMIT_VALUE_WITH_EXPIRY: Final = 1
GROUP_METADATA_VALUE_WRITTEN: Final = 3


class OffsetCommitKey(Message, versions="0-1", flexible="none"):
    """The key of a group's committed offset of a partition."""

    group: str = string("0+")
    topic: str = string("0+")
    partition: int = int32("0+")


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """A committed offset. Timestamps are wall-clock milliseconds; `expire_timestamp` is -1 unless the client set one.

    `topic_id` tells a topic from a later one of the same name. It is zero in versions before 4.
    """

    offset: int = int64("0+")
    leader_epoch: int = int32("3+", default=NO_EPOCH)
    metadata: str = string("0+")
    commit_timestamp: int = int64("0+")
    expire_timestamp: int = int64("1", default=NO_TIMESTAMP)
    topic_id: UUID = uuid("4+", tag=0)


class GroupMetadataKey(Message, versions="2", flexible="none"):
    """The key of a group's metadata."""

    group: str = string("0+")


class MemberMetadata(Message):
    """A member in a persisted generation; `subscription` is its metadata for the selected protocol."""

    member_id: str = string("0+")
    group_instance_id: str | None = string("3+", nullable="3+", default=None)
    client_id: str = string("0+")
    client_host: str = string("0+")
    rebalance_timeout: int = int32("1+")
    session_timeout: int = int32("0+")
    subscription: bytes = bytes_("0+")
    assignment: bytes = bytes_("0+")


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A generation of a group: its members and their assignments. Without members the group is empty."""

    protocol_type: str = string("0+")
    generation: int = int32("0+")
    protocol: str | None = string("0+", nullable="0+")
    leader: str | None = string("0+", nullable="0+")
    current_state_timestamp: int = int64("2+", default=NO_TIMESTAMP)
    members: list[MemberMetadata] = array(MemberMetadata, "0+")


class OffsetCommitRecord(NamedTuple):
    """An offset committed (or, without a value, removed)."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None

    @property
    def group_id(self) -> str:
        """Whose it is."""
        return self.key.group

    @property
    def partition(self) -> TopicPartition:
        """Whose offset it is."""
        return TopicPartition(self.key.topic, self.key.partition)

    def encode(self) -> Record:
        """As key and value bytes."""
        key = encode_versioned(self.key, OFFSET_COMMIT_KEY_WRITTEN)
        if self.value is None:
            return Record(key, None)
        expires = self.value.expire_timestamp != NO_TIMESTAMP
        version = OFFSET_COMMIT_VALUE_WITH_EXPIRY if expires else OFFSET_COMMIT_VALUE_WRITTEN
        return Record(key, encode_versioned(self.value, version))


class GroupMetadataRecord(NamedTuple):
    """A group's generation persisted (or, without a value, the group removed)."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None

    @property
    def group_id(self) -> str:
        """Whose it is."""
        return self.key.group

    def encode(self) -> Record:
        """As key and value bytes."""
        value = None if self.value is None else encode_versioned(self.value, GROUP_METADATA_VALUE_WRITTEN)
        return Record(encode_versioned(self.key, GROUP_METADATA_KEY), value)


GroupRecord = OffsetCommitRecord | GroupMetadataRecord | ConsumerGroupRecord


def decode_record(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """Decode a record; None for an unknown type.

    Raises WireError for malformed bytes.
    """
    kind = version_of(key)
    if kind in OFFSET_COMMIT_KEY:
        offset_key = decode_versioned(OffsetCommitKey, key)
        return OffsetCommitRecord(offset_key, None if value is None else decode_versioned(OffsetCommitValue, value))
    if kind == GROUP_METADATA_KEY:
        group_key = decode_versioned(GroupMetadataKey, key)
        return GroupMetadataRecord(group_key, None if value is None else _decode_group(value))
    return decode_consumer_record(key, value)


def _decode_group(value: Buffer) -> GroupMetadataValue:
    group = decode_versioned(GroupMetadataValue, value)
    if version_of(value) == 0:  # version 0 had one timeout
        for member in group.members:
            member.rebalance_timeout = member.session_timeout
    return group
