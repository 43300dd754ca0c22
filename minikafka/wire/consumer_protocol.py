"""What members of a consumer group tell each other through the coordinator: subscriptions and assignments.

Both are a version (int16) and a body; the coordinator itself does not look inside. Readers take the newest version
they know for any newer one and ignore what follows, because every version only adds at the end.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import TypeVar

from minikafka.wire.codec import decode, encode
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from minikafka.wire.schema import Buffer, Message, VersionRange

M = TypeVar("M", bound=Message)

PROTOCOL_TYPE = "consumer"
VERSION_LATEST = 3

_version = Struct(">h")


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = VERSION_LATEST) -> bytes:
    """The metadata of a JoinGroup protocol. Older group members read only what their version knows."""
    return _version.pack(version) + encode(subscription, version)


def decode_subscription(blob: Buffer) -> ConsumerProtocolSubscription:
    """Read a member's metadata. Raises WireError for an empty or malformed one."""
    return _decode(ConsumerProtocolSubscription, blob)


def version_of_metadata(blob: Buffer) -> int:
    """The newest version that a member with this metadata reads, and that is known here. Raises WireError."""
    try:
        (version,) = _version.unpack_from(blob)
    except struct_error:
        raise WireError("the metadata has no version") from None
    return min(max(int(version), 0), VERSION_LATEST)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = VERSION_LATEST) -> bytes:
    """The assignment of a SyncGroup."""
    return _version.pack(version) + encode(assignment, version)


def decode_assignment(blob: Buffer) -> ConsumerProtocolAssignment:
    """Read a member's assignment. Raises WireError for an empty or malformed one."""
    return _decode(ConsumerProtocolAssignment, blob)


def _decode(cls: type[M], blob: Buffer) -> M:
    try:
        (version,) = _version.unpack_from(blob)
    except struct_error:
        raise WireError(f"{cls.__name__} has no version") from None
    if version < 0:
        raise WireError(f"{cls.__name__} has version {version}")
    message, _ = decode(cls, min(version, VersionRange.parse(cls.VERSIONS).last), blob, _version.size)
    return message
