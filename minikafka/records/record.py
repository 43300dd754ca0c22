"""One record: the value that callers hold, and its encoding inside a batch.

::

    length          varint   bytes after this field
    attributes      int8     unused, 0
    timestamp_delta varlong  from the batch's base_timestamp
    offset_delta    varint   from the batch's base_offset
    key, value      varint length (-1 for null), bytes
    headers         varint count; each: varint length, UTF-8 key; varint length (-1 for null), bytes

Varints are zigzag, 7 bits a byte, low bits first. The decoder is in ``read``, where it is inlined for speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from minikafka.records.batch import Buffer

Header: TypeAlias = tuple[str, bytes | None]

MIN_RECORD_SIZE: Final = 7  # seven one-byte fields: what a record with neither key, value nor headers takes

# Header keys are UTF-8 by contract only. Bytes that are not survive a read and a rebuild (compaction) unchanged.
HEADER_KEY_ERRORS: Final = "surrogateescape"

_NULL: Final = b"\x01"
_NO_HEADERS: Final = b"\x00"


class Record(NamedTuple):
    """A record as read from, or to be put in, a batch. ``timestamp`` is wall-clock ms; a null value is a tombstone."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header] = ()
    """A tuple. Of a record that was read and has very many: :class:`~minikafka.records.read.ManyHeaders`."""


def encode_varint(value: int) -> bytes:
    """``value`` (an int64) as a zigzag varint of 1 to 10 bytes."""
    rest = value << 1 if value >= 0 else (~value << 1) | 1
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


_SMALL: Final = 8192  # every varint of one or two bytes: the offsets, times and sizes of nearly all records
_VARINTS: Final = (
    *(bytes((value << 1,)) for value in range(64)),
    *(bytes((value << 1 & 0x7F | 0x80, value >> 6)) for value in range(64, _SMALL)),
)


def encode_record(
    offset_delta: int,
    timestamp_delta: int,
    key: Buffer | None,
    value: Buffer | None,
    headers: Sequence[Header] = (),
) -> bytes:
    """The record's bytes, length prefix included. The table look-ups are inlined: a call costs more than a field."""
    body = b"".join(
        (
            b"\x00",
            _VARINTS[timestamp_delta] if 0 <= timestamp_delta < _SMALL else encode_varint(timestamp_delta),
            _VARINTS[offset_delta] if 0 <= offset_delta < _SMALL else encode_varint(offset_delta),
            _NULL if key is None else _VARINTS[size] if (size := len(key)) < _SMALL else encode_varint(size),
            key or b"",
            _NULL if value is None else _VARINTS[size] if (size := len(value)) < _SMALL else encode_varint(size),
            value or b"",
            _encode_headers(headers) if headers else _NO_HEADERS,
        )
    )
    size = len(body)
    return (_VARINTS[size] if size < _SMALL else encode_varint(size)) + body


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [encode_varint(len(headers))]
    for name, value in headers:
        key = name.encode("utf-8", HEADER_KEY_ERRORS)
        parts += (encode_varint(len(key)), key)
        parts += (_NULL,) if value is None else (encode_varint(len(value)), value)
    return b"".join(parts)
