"""The ``consumer`` protocol: what consumers put into the metadata and assignments that the coordinator only carries.

An int16 version, then the message in that version; a reader takes what it knows of a newer one. The coordinator looks
inside for one purpose: which topics a group subscribes to decides which of its offsets are still in use.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeVar

from minikafka.groups.group import Group
from minikafka.wire.codec import decode, encode
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minikafka.wire.schema import Buffer, Message

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
VERSION_MAX: Final = 3

_version = Struct(">h")
M = TypeVar("M", bound=Message)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = VERSION_MAX) -> bytes:
    """The metadata of a JoinGroup protocol."""
    return _version.pack(version) + encode(subscription, version)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = VERSION_MAX) -> bytes:
    """The assignment of a SyncGroup."""
    return _version.pack(version) + encode(assignment, version)


def decode_subscription(buf: Buffer) -> ConsumerProtocolSubscription:
    """Reads what :func:`encode_subscription` and other clients write. Raises WireError."""
    return _decode(ConsumerProtocolSubscription, buf)


def decode_assignment(buf: Buffer) -> ConsumerProtocolAssignment:
    """Reads an assignment; empty bytes, which a member gets whom the leader left out, are an empty one."""
    return _decode(ConsumerProtocolAssignment, buf) if buf else ConsumerProtocolAssignment()


def _decode(cls: type[M], buf: Buffer) -> M:
    if len(buf) < _version.size:
        raise WireError(f"{len(buf)} bytes are too few for a {cls.__name__}")
    version = _version.unpack_from(buf)[0]
    if version < 0:
        raise WireError(f"{cls.__name__} has version {version}")
    return decode(cls, min(version, VERSION_MAX), buf, _version.size)[0]


def subscribed_topics(group: Group) -> frozenset[str] | None:
    """The topics that the group's members subscribe to; None when that cannot be told (then any may be in use)."""
    if not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.protocol_name is None:
        return None
    topics: set[str] = set()
    for member in group.members.values():
        try:
            topics.update(decode_subscription(member.metadata_for(group.protocol_name)).topics)
        except WireError:
            return None
    return frozenset(topics)
