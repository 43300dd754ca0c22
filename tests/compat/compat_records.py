"""Records for round trips: everything a record may hold, the same for each client."""

from __future__ import annotations

from typing import Final, NamedTuple

import pytest

COMPRESSIONS: Final = ["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: Final = ["none", *(pytest.param(name, marks=pytest.mark.feature(name)) for name in COMPRESSIONS[1:])]
"""The same, each a feature of the client that is tried with it."""
PARTITIONS: Final = 4

EVERY_BYTE: Final = bytes(range(256))


class Sample(NamedTuple):
    """A record as it is sent, and as it must come back."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


def samples(count: int = 60) -> list[Sample]:
    """Null and empty keys and values, repeated and empty headers, every byte, and one value of 300 kB."""
    records = [_sample(number) for number in range(count)]
    return [
        *records,
        Sample(b"", b"", [("", b"")]),
        Sample(b"key without value", None, [("why", b"a tombstone")]),
        Sample(EVERY_BYTE, EVERY_BYTE * 1200, [("snow \u2603", EVERY_BYTE)]),
    ]


NOTHING: Final = Sample(None, None, [])
"""What not every client lets one send."""


def _sample(number: int) -> Sample:
    key = None if number % 7 == 3 else b"key-%d" % number
    value = EVERY_BYTE[: number % 256] + b"value-%d " % number * (number % 20)
    return Sample(key, value, [("n", b"%d" % n) for n in range(number % 4)])
