"""Keys and values of the records in Kafka's internal topics: an int16 with type or version, then a message.

A key begins with the type of its record, a value with the version of its format.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple, TypeVar

from minikafka.wire.codec import decode_exactly, encode
from minikafka.wire.errors import WireError
from minikafka.wire.schema import Buffer, Message

_version = Struct(">h")
M = TypeVar("M", bound=Message)


class Record(NamedTuple):
    """Key and value of a record to append; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


def version_of(buf: Buffer) -> int:
    """The number at the start. WireError when there is none."""
    if len(buf) < _version.size:
        raise WireError("a record of an internal topic is too short for its version")
    version: int = _version.unpack_from(buf)[0]
    return version


def encode_versioned(message: Message, version: int) -> bytes:
    """The number, and the message in that version."""
    return _version.pack(version) + encode(message, version)


def decode_versioned(cls: type[M], buf: Buffer) -> M:
    """The message in the version that its number says. WireError for malformed bytes."""
    return decode_exactly(cls, version_of(buf), buf, _version.size)
