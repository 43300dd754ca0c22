"""The primitive types that the compiled codecs call out for; the rest they do inline.

Formats are those of https://kafka.apache.org/protocol#protocol_types. An unsigned varint has at most 5 bytes.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, pack, unpack_from
from typing import Final
from uuid import UUID

from minikafka.wire.errors import WireError
from minikafka.wire.schema import Buffer

ELEMENTS_MAX: Final = 250_000
"""Most array elements (nested ones included) and tagged fields in one message; 8 integers count as one element,
unless each names what is asked about (partitions, not replicas).

Bounds what one frame may cost: about 40 MB and a quarter of a second.
"""

STRING_BYTES_PER_ELEMENT: Final = 1024
"""A string counts as one more element for each. With one character that is no letter it takes four times its bytes."""

STRING_SIZE_MAX: Final = 32767
SMALL_UVARINTS: Final = tuple(bytes([n]) for n in range(128))

_SMALL_ARRAY = 16
_int32s = tuple(Struct(f">{n}i") for n in range(_SMALL_ARRAY))
_int64s = tuple(Struct(f">{n}q") for n in range(_SMALL_ARRAY))


def read_uvarint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint at `pos`, and the position behind it. Raises IndexError when `buf` ends early."""
    first = buf[pos]
    if first < 128:
        return first, pos + 1
    return finish_uvarint(buf, pos + 1, first)


def finish_uvarint(buf: Buffer, pos: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, already read, had its continuation bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 128:
            return value, pos
    raise WireError("a varint is longer than 5 bytes")


def encode_uvarint(value: int) -> bytes:
    """`value` (0 <= value < 2**32) as an unsigned varint."""
    if value < 128:
        return SMALL_UVARINTS[value]
    out = bytearray()
    while value > 127:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def skip_tagged_fields(buf: Buffer, pos: int, count: int) -> int:
    """The position behind `count` tagged fields that nobody here knows (KIP-482: they are ignored)."""
    if count > 127:
        count, pos = finish_uvarint(buf, pos, count)
    if count > ELEMENTS_MAX:
        raise WireError(f"{count} tagged fields are more than {ELEMENTS_MAX}")
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
        if pos > len(buf):
            raise WireError("a tagged field reaches beyond the end of the message")
    return pos


@lru_cache(maxsize=8192)
def uuid_of(raw: bytes) -> UUID:
    """The UUID of 16 bytes. Cached, because topic ids repeat in every request and a UUID is slow to build."""
    return UUID(bytes=raw)


def unpack_int32s(buf: Buffer, pos: int, count: int) -> list[int]:
    """`count` big-endian int32 at `pos`; the caller has checked that they are there."""
    if count < _SMALL_ARRAY:
        return list(_int32s[count].unpack_from(buf, pos))
    return list(unpack_from(f">{count}i", buf, pos))


def unpack_int64s(buf: Buffer, pos: int, count: int) -> list[int]:
    """`count` big-endian int64 at `pos`; the caller has checked that they are there."""
    if count < _SMALL_ARRAY:
        return list(_int64s[count].unpack_from(buf, pos))
    return list(unpack_from(f">{count}q", buf, pos))


def pack_int32s(values: list[int]) -> bytes:
    """`values` as big-endian int32, without a count."""
    count = len(values)
    return _int32s[count].pack(*values) if count < _SMALL_ARRAY else pack(f">{count}i", *values)


def pack_int64s(values: list[int]) -> bytes:
    """`values` as big-endian int64, without a count."""
    count = len(values)
    return _int64s[count].pack(*values) if count < _SMALL_ARRAY else pack(f">{count}q", *values)


def tag_header(tag: int, size: int) -> bytes:
    """What stands before a tagged field's value."""
    return encode_uvarint(tag) + encode_uvarint(size)
