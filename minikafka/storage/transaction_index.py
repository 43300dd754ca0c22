"""The aborted transactions of a segment: those whose markers it has (row T20). ``.txnindex``, in Kafka's format::

    int16 version 0, int64 producer_id, int64 first_offset, int64 last_offset, int64 last_stable_offset

An entry has 34 bytes. ``first_offset`` is that of the transaction's first record, maybe in an earlier segment;
``last_offset`` that of its marker; ``last_stable_offset`` that of the log once the marker is committed. Last offsets
grow strictly, last stable offsets do not fall. There is no file if nothing was aborted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from minikafka.model import NO_OFFSET
from minikafka.records.batch import Buffer
from minikafka.storage.index import DamagedIndexError

ENTRY: Final = Struct(">hqqqq")
VERSION: Final = 0
BLOCK: Final = 256
"""Entries."""
UNKNOWN_CHECKSUM: Final = -1
NO_ABORTED: Final = 0
"""The checksum of no entries."""


class AbortedTransaction(NamedTuple):
    """See the module."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class AbortedBounds(NamedTuple):
    """What tells that an index need not be read."""

    lowest_first_offset: int
    last_stable_offset: int


class TransactionIndex:
    """Entries in the order of their markers."""

    __slots__ = (
        "_block_checksums",
        "_block_firsts",
        "_checksum",
        "_first_offsets",
        "_last_offsets",
        "_last_stable_offsets",
        "_producer_ids",
    )

    def __init__(self) -> None:
        self._block_firsts = array("q")  # the lowest first offset of each BLOCK entries
        self._block_checksums = array("I")  # of the entries before
        self._checksum = 0
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")
        self._last_stable_offsets = array("q")

    @classmethod
    def decode(cls, base_offset: int, end_offset: int, data: Buffer) -> TransactionIndex:
        """The index in ``data``, of a segment with these bounds. DamagedIndexError if it cannot be."""
        if not data or len(data) % ENTRY.size:
            raise DamagedIndexError(f"{len(data)} bytes are no entries")
        index = cls()
        for version, producer_id, first_offset, last_offset, last_stable_offset in ENTRY.iter_unpack(data):
            if version != VERSION or producer_id < 0 or not 0 <= first_offset < last_offset:
                raise DamagedIndexError(f"no aborted transaction: version {version}, producer {producer_id}")
            index.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
        lasts, stables = index._last_offsets, index._last_stable_offsets
        if len(lasts) and not base_offset <= lasts[0] <= lasts[-1] < end_offset:
            raise DamagedIndexError("a marker lies outside the segment")
        if any(a >= b for a, b in pairwise(lasts)) or any(a > b for a, b in pairwise(stables)):
            raise DamagedIndexError("entries are out of order")
        return index

    def encode(self) -> bytes:
        """The content of the file."""
        return b"".join(ENTRY.pack(VERSION, *entry) for entry in self)

    @property
    def size_in_bytes(self) -> int:
        """Of the file."""
        return len(self._last_offsets) * ENTRY.size

    @property
    def checksum(self) -> int:
        """CRC-32C of the content of the file; :data:`NO_ABORTED` only if there is none."""
        return (self._checksum or 1) if self._last_offsets else NO_ABORTED

    @property
    def last_stable_offset(self) -> int:
        """Of the log, with the last entry; -1 without one. No later entry is of a transaction that began before."""
        return self._last_stable_offsets[-1] if self._last_stable_offsets else NO_OFFSET

    @property
    def bounds(self) -> AbortedBounds:
        """Of all entries; (0, -1) without one."""
        return AbortedBounds(min(self._block_firsts, default=0), self.last_stable_offset)

    def __len__(self) -> int:
        return len(self._last_offsets)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        columns = self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets
        return map(AbortedTransaction, *columns)

    def append(self, aborted: AbortedTransaction) -> None:
        """A further marker."""
        if len(self) % BLOCK == 0:
            self._block_firsts.append(aborted.first_offset)
            self._block_checksums.append(self._checksum)
        elif aborted.first_offset < self._block_firsts[-1]:
            self._block_firsts[-1] = aborted.first_offset
        self._producer_ids.append(aborted.producer_id)
        self._first_offsets.append(aborted.first_offset)
        self._last_offsets.append(aborted.last_offset)
        self._last_stable_offsets.append(aborted.last_stable_offset)
        self._checksum = crc32c(ENTRY.pack(VERSION, *aborted), self._checksum)

    def truncate(self, end_offset: int) -> None:
        """Forget markers from ``end_offset`` on."""
        keep = bisect_left(self._last_offsets, end_offset)
        for column in (self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets):
            del column[keep:]
        whole = keep // BLOCK
        if whole < len(self._block_checksums):
            self._checksum = self._block_checksums[whole]
        del self._block_firsts[whole:], self._block_checksums[whole:]
        if keep % BLOCK:
            self._block_firsts.append(min(self._first_offsets[whole * BLOCK :]))
            self._block_checksums.append(self._checksum)
            for at in range(whole * BLOCK, keep):
                self._checksum = crc32c(ENTRY.pack(VERSION, *self._entry(at)), self._checksum)

    def between(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """The transactions with an offset in ``[start_offset, end_offset)``, by marker; later segments may have more.

        They have no more if :attr:`last_stable_offset` is at or behind ``end_offset``.
        """
        begin, behind = bisect_left(self._last_offsets, start_offset), bisect_left(self._last_offsets, end_offset)
        end = min(bisect_left(self._last_stable_offsets, end_offset, begin) + 1, len(self))
        found = [self._entry(at) for at in range(begin, min(behind, end))]
        return found + [self._entry(at) for at in self._begun_before(end_offset, max(begin, behind), end)]

    def _begun_before(self, offset: int, begin: int, end: int) -> Iterator[int]:
        """Which of these entries began before ``offset``.

        While one transaction stays open, thousands that began behind it are aborted, so whole blocks are passed over.
        """
        firsts, at = self._first_offsets, begin
        while at < end:
            stop = min(at - at % BLOCK + BLOCK, end)
            if self._block_firsts[at // BLOCK] < offset:
                yield from (each for each in range(at, stop) if firsts[each] < offset)
            at = stop

    def end_of_markers(self, start_offset: int, count: int) -> int | None:
        """The offset after the first ``count`` markers from ``start_offset`` on; None if there are not so many."""
        at = bisect_left(self._last_offsets, start_offset) + count - 1
        return self._last_offsets[at] + 1 if at < len(self._last_offsets) else None

    def _entry(self, at: int) -> AbortedTransaction:
        return AbortedTransaction(
            self._producer_ids[at], self._first_offsets[at], self._last_offsets[at], self._last_stable_offsets[at]
        )
