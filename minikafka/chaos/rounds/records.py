"""The records of loads: a key is the record's id in the history, its value some bytes made from it."""

from __future__ import annotations

from typing import Final
from zlib import crc32

TOPIC: Final = "load"
PARTITIONS: Final = 6


def value_of(key: str) -> bytes:
    """100 bytes that belong to a record."""
    return (key + "/" + f"{crc32(key.encode()):08x}" * 12)[:100].encode()


def identity(key: bytes | None, value: bytes | None) -> str:
    """The id of a record that was handed out; another one, if it is not what was sent."""
    name = (key or b"").decode(errors="replace")
    return name if value == value_of(name) else f"{name}#damaged"


def place(topic: str | None, partition: int | None) -> str:
    """As histories name it."""
    return f"{topic}-{partition}"
