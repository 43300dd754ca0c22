"""What the coordinator writes into ``__consumer_offsets``: Kafka's own key and value formats.

A key begins with an int16 that says what it names: 0 and 1 a committed offset, 2 a group's metadata (higher ones
belong to group types that are not offered here). A value begins with the int16 version of its own format. A record
without a value is a tombstone.

Written are the values of groups in version 3, which every Kafka since 2.3 reads, and those of offsets in version 4, the
first that can hold the topic's id (as Kafka 4.1 writes them). An offset with an explicit expiry (OffsetCommit before
version 5 could ask for one) is written as version 1, the only one that has the field. Read are all versions that Kafka
has had: 0 to 4.
"""

from __future__ import annotations

from struct import Struct
from typing import ClassVar, Final, NamedTuple, TypeVar
from uuid import UUID

from minikafka.model import NO_EPOCH, NO_TIMESTAMP
from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.errors import WireError
from minikafka.wire.schema import EMPTY, ZERO_UUID, Buffer, F, Message

OFFSET_COMMIT_KEY: Final = (0, 1)
GROUP_METADATA_KEY: Final = 2
OFFSET_COMMIT_KEY_WRITTEN: Final = 1
OFFSET_COMMIT_VALUE_WRITTEN: Final = 4
OFFSET_COMMIT_VALUE_WITH_EXPIRY: Final = 1
GROUP_METADATA_VALUE_WRITTEN: Final = 3

_version = Struct(">h")
M = TypeVar("M", bound=Message)


class Record(NamedTuple):
    """Key and value of a record to append; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


class OffsetCommitKey(Message):
    """Names the offset that a group committed for a partition."""

    __slots__ = ("group", "partition", "topic")
    SCHEMA: ClassVar[tuple[F, ...]] = (
        F("group", "string", "0+"),
        F("topic", "string", "0+"),
        F("partition", "int32", "0+"),
    )
    VERSIONS: ClassVar[str] = "0-1"
    FLEXIBLE: ClassVar[str] = "none"

    def __init__(self, *, group: str = "", topic: str = "", partition: int = 0) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(Message):
    """A committed offset. Timestamps are wall-clock milliseconds; `expire_timestamp` is -1 unless it was asked for.

    `topic_id` tells a topic from a later one of its name; zero in records of versions before 4.
    """

    __slots__ = ("commit_timestamp", "expire_timestamp", "leader_epoch", "metadata", "offset", "topic_id")
    SCHEMA: ClassVar[tuple[F, ...]] = (
        F("offset", "int64", "0+"),
        F("leader_epoch", "int32", "3+", default=NO_EPOCH),
        F("metadata", "string", "0+"),
        F("commit_timestamp", "int64", "0+"),
        F("expire_timestamp", "int64", "1", default=NO_TIMESTAMP),
        F("topic_id", "uuid", "4+", tag=0, tagged="4+"),
    )
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = NO_EPOCH,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = NO_TIMESTAMP,
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id


class GroupMetadataKey(Message):
    """Names a group."""

    __slots__ = ("group",)
    SCHEMA: ClassVar[tuple[F, ...]] = (F("group", "string", "0+"),)
    VERSIONS: ClassVar[str] = "2"
    FLEXIBLE: ClassVar[str] = "none"

    def __init__(self, *, group: str = "") -> None:
        self.group = group


class MemberMetadata(Message):
    """A member in a persisted generation; `subscription` is its metadata for the protocol that was selected."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "group_instance_id",
        "member_id",
        "rebalance_timeout",
        "session_timeout",
        "subscription",
    )
    SCHEMA: ClassVar[tuple[F, ...]] = (
        F("member_id", "string", "0+"),
        F("group_instance_id", "string", "3+", nullable="3+", null_default=True),
        F("client_id", "string", "0+"),
        F("client_host", "string", "0+"),
        F("rebalance_timeout", "int32", "1+"),
        F("session_timeout", "int32", "0+"),
        F("subscription", "bytes", "0+"),
        F("assignment", "bytes", "0+"),
    )
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = 0,
        session_timeout: int = 0,
        subscription: bytes = b"",
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(Message):
    """A generation of a group: who is in it and who got what. Without members the group is empty."""

    __slots__ = ("current_state_timestamp", "generation", "leader", "members", "protocol", "protocol_type")
    SCHEMA: ClassVar[tuple[F, ...]] = (
        F("protocol_type", "string", "0+"),
        F("generation", "int32", "0+"),
        F("protocol", "string", "0+", nullable="0+"),
        F("leader", "string", "0+", nullable="0+"),
        F("current_state_timestamp", "int64", "2+", default=NO_TIMESTAMP),
        F("members", MemberMetadata, "0+", array=True),
    )
    VERSIONS: ClassVar[str] = "0-4"
    FLEXIBLE: ClassVar[str] = "4+"

    def __init__(
        self,
        *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = NO_TIMESTAMP,
        members: list[MemberMetadata] = EMPTY,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is EMPTY else members


class OffsetCommitRecord(NamedTuple):
    """An offset committed (or, without a value, removed)."""

    key: OffsetCommitKey
    value: OffsetCommitValue | None

    def encode(self) -> Record:
        """As key and value bytes."""
        key = _versioned(self.key, OFFSET_COMMIT_KEY_WRITTEN)
        if self.value is None:
            return Record(key, None)
        expires = self.value.expire_timestamp != NO_TIMESTAMP
        version = OFFSET_COMMIT_VALUE_WITH_EXPIRY if expires else OFFSET_COMMIT_VALUE_WRITTEN
        return Record(key, _versioned(self.value, version))


class GroupMetadataRecord(NamedTuple):
    """A group's generation persisted (or, without a value, the group removed)."""

    key: GroupMetadataKey
    value: GroupMetadataValue | None

    def encode(self) -> Record:
        """As key and value bytes."""
        value = None if self.value is None else _versioned(self.value, GROUP_METADATA_VALUE_WRITTEN)
        return Record(_versioned(self.key, GROUP_METADATA_KEY), value)


GroupRecord = OffsetCommitRecord | GroupMetadataRecord


def decode_record(key: Buffer, value: Buffer | None) -> GroupRecord | None:
    """The record that `key` and `value` hold, or None for a kind that is not known here.

    Raises WireError for bytes that are not such a record.
    """
    kind = _read_version(key)
    if kind in OFFSET_COMMIT_KEY:
        offset_key = decode_exactly(OffsetCommitKey, kind, key, _version.size)
        return OffsetCommitRecord(offset_key, None if value is None else _decode_value(OffsetCommitValue, value))
    if kind == GROUP_METADATA_KEY:
        group_key = decode_exactly(GroupMetadataKey, kind, key, _version.size)
        return GroupMetadataRecord(group_key, None if value is None else _decode_group(value))
    return None


def _decode_group(value: Buffer) -> GroupMetadataValue:
    group = _decode_value(GroupMetadataValue, value)
    if _read_version(value) == 0:  # there was one timeout then
        for member in group.members:
            member.rebalance_timeout = member.session_timeout
    return group


def _decode_value(cls: type[M], value: Buffer) -> M:
    return decode_exactly(cls, _read_version(value), value, _version.size)


def _read_version(buf: Buffer) -> int:
    if len(buf) < _version.size:
        raise WireError("a record of the offsets topic is too short for its version")
    version: int = _version.unpack_from(buf)[0]
    return version


def _versioned(message: Message, version: int) -> bytes:
    return _version.pack(version) + encode(message, version)
