"""The sparse indexes of a segment, held in arrays and bisected; on disk exactly as Kafka writes them.

``.index``      8-byte entries: offset of a batch's last record minus the segment's base offset (int32), file position
                of that batch (int32). Both grow strictly.
``.timeindex``  12-byte entries: largest timestamp so far (int64, ms), relative last offset of the batch that has it
                (int32). Timestamps grow strictly, offsets do not shrink.

An index is a hint: a look-up gives a position at or before the wanted batch, and a walk from there finds it.
"""

from __future__ import annotations

import operator
import sys
from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from minikafka.records.batch import Buffer

OFFSET_ENTRY_BYTES = 8
TIME_ENTRY_BYTES = 12
MAX_RELATIVE_OFFSET = 0x7FFFFFFF

_SWAP = sys.byteorder == "little"
_HIGH, _LOW = (1, 0) if _SWAP else (0, 1)  # where the halves of an int64 are among the int32 words of this machine


class DamagedIndexError(Exception):
    """The bytes cannot be an index of that segment: rebuild it from the batches."""


class OffsetEntry(NamedTuple):
    """Last offset of a batch, and its position in the file."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp up to a point of the segment, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class OffsetIndex:
    """offset -> position of a batch at or before it."""

    __slots__ = ("_base_offset", "_offsets", "_positions")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._offsets = array("i")
        self._positions = array("i")

    @classmethod
    def decode(cls, base_offset: int, data: Buffer, log_size: int) -> OffsetIndex:
        """The index in ``data``, checked against a log file of ``log_size`` bytes."""
        if len(data) % OFFSET_ENTRY_BYTES:
            raise DamagedIndexError(f"{len(data)} bytes are not a whole number of entries")
        raw = array("i")
        raw.frombytes(data)
        if _SWAP:
            raw.byteswap()
        index = cls(base_offset)
        index._offsets, index._positions = raw[0::2], raw[1::2]
        index._check(log_size)
        return index

    def encode(self) -> bytes:
        """The content of the ``.index`` file."""
        raw = array("i", bytes(OFFSET_ENTRY_BYTES * len(self)))
        raw[0::2] = self._offsets
        raw[1::2] = self._positions
        if _SWAP:
            raw.byteswap()
        return raw.tobytes()

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, at: int) -> OffsetEntry:
        return OffsetEntry(self._base_offset + self._offsets[at], self._positions[at])

    @property
    def last(self) -> OffsetEntry | None:
        """The entry furthest into the segment."""
        return self[-1] if self._offsets else None

    def append(self, last_offset: int, position: int) -> None:
        """A batch that ends at ``last_offset`` begins at ``position``."""
        self._offsets.append(last_offset - self._base_offset)
        self._positions.append(position)

    def lookup(self, offset: int) -> OffsetEntry | None:
        """The last entry at or before ``offset``; None when the walk must start at the file's beginning."""
        at = bisect_right(self._offsets, min(offset - self._base_offset, MAX_RELATIVE_OFFSET)) - 1
        return self[at] if at >= 0 else None

    def boundary_at_or_before(self, position: int) -> int:
        """The largest indexed batch position <= ``position``; 0 when there is none."""
        at = bisect_right(self._positions, min(position, MAX_RELATIVE_OFFSET)) - 1
        return self._positions[at] if at >= 0 else 0

    def truncate(self, position: int) -> None:
        """Forget batches that begin at or after ``position``."""
        keep = bisect_left(self._positions, position)
        del self._offsets[keep:]
        del self._positions[keep:]

    def _check(self, log_size: int) -> None:
        if not self._offsets:
            return
        if self._offsets[0] < 0 or self._positions[0] < 0 or self._positions[-1] >= log_size:
            raise DamagedIndexError("an entry points outside the segment")
        if not (_grows(self._offsets, operator.lt) and _grows(self._positions, operator.lt)):
            raise DamagedIndexError("entries are out of order")


class TimeIndex:
    """timestamp -> offset of a batch at or before the first one with that timestamp or later."""

    __slots__ = ("_base_offset", "_offsets", "_timestamps")

    def __init__(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self._timestamps = array("q")
        self._offsets = array("i")

    @classmethod
    def decode(cls, base_offset: int, data: Buffer) -> TimeIndex:
        """The index in ``data``."""
        if len(data) % TIME_ENTRY_BYTES:
            raise DamagedIndexError(f"{len(data)} bytes are not a whole number of entries")
        words = array("i")
        words.frombytes(data)
        if _SWAP:
            words.byteswap()
        halves = array("i", bytes(8 * (len(words) // 3)))
        halves[_HIGH::2], halves[_LOW::2] = words[0::3], words[1::3]
        index = cls(base_offset)
        index._timestamps.frombytes(halves.tobytes())
        index._offsets = words[2::3]
        index._check()
        return index

    def encode(self) -> bytes:
        """The content of the ``.timeindex`` file."""
        halves = array("i")
        halves.frombytes(self._timestamps.tobytes())
        words = array("i", bytes(TIME_ENTRY_BYTES * len(self)))
        words[0::3], words[1::3], words[2::3] = halves[_HIGH::2], halves[_LOW::2], self._offsets
        if _SWAP:
            words.byteswap()
        return words.tobytes()

    def __len__(self) -> int:
        return len(self._timestamps)

    def __getitem__(self, at: int) -> TimeEntry:
        return TimeEntry(self._timestamps[at], self._base_offset + self._offsets[at])

    @property
    def last(self) -> TimeEntry | None:
        """The entry furthest into the segment."""
        return self[-1] if self._timestamps else None

    def maybe_append(self, timestamp: int, offset: int) -> None:
        """Note the largest timestamp so far; nothing when it did not grow."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(offset - self._base_offset)

    def lookup(self, timestamp: int) -> TimeEntry | None:
        """The last entry earlier than ``timestamp``; None when the walk must start at the beginning."""
        at = bisect_left(self._timestamps, timestamp) - 1
        return self[at] if at >= 0 else None

    def truncate(self, end_offset: int) -> None:
        """Forget entries for offsets at or after ``end_offset``."""
        keep = bisect_left(self._offsets, end_offset - self._base_offset)
        del self._timestamps[keep:]
        del self._offsets[keep:]

    def _check(self) -> None:
        if self._offsets and self._offsets[0] < 0:
            raise DamagedIndexError("an entry lies before the segment")
        if not (_grows(self._timestamps, operator.lt) and _grows(self._offsets, operator.le)):
            raise DamagedIndexError("entries are out of order")


def _grows(values: array[int], compare: object) -> bool:
    assert callable(compare)
    return all(map(compare, values, memoryview(values)[1:]))
