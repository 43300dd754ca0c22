"""Last offset of each key, in the part of a log that was not cleaned before; never over 64 MiB.

Memory is counted in keys, each at its largest: 64 bytes for the key (a longer one is replaced by a digest), 32 for the
offset, its place in the dictionary, and 8 in the list of survivors. With :data:`MAX_KEYS` the map is full: the pass
ends at the first offset without room, and the next one goes on from there. The map may have offsets after that end.
They are right, too: those records exist, and are kept.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from minikafka.errors import KafkaError
from minikafka.records.batch import BatchHeader, Buffer
from minikafka.records.keys import iter_keys
from minikafka.records.read import read_body

MAX_KEYS: Final = 420_000
LONG_KEY_BYTES: Final = 31  # with the 33 of a bytes object: 64
DIGEST_BYTES: Final = 15  # two of 2^60 keys are likely to share one
LARGE_BATCH_RECORDS: Final = 10_000

Entry = int
"""Twice the offset, and 1 more for a tombstone: entries sort as their offsets do."""


class KeyMap:
    """See the module. First add batches in the order of the log; after ``close`` query it."""

    def __init__(self, start_offset: int, max_keys: int = MAX_KEYS) -> None:
        """Records below ``start_offset`` do not count: an earlier pass saw them."""
        self.start_offset = start_offset
        self.full_at: int | None = None
        """Offset of the first record without room; None while there is room."""
        self.unreadable: set[int] = set()
        """Base offsets of batches with malformed records."""
        self._max_keys = max_keys
        self._entries: dict[bytes, Entry] = {}
        self._survivors: list[Entry] = []

    # -- adding -----------------------------------------------------------------------------------------------------

    def add(self, header: BatchHeader, batch: Buffer) -> None:
        """Add a batch of records. A malformed one is noted as a whole: its keys supersede nothing."""
        try:
            self._add_records(header, batch)
        except KafkaError:
            if not self._room:
                self.full_at = header.base_offset
            self.unreadable.add(header.base_offset)

    def _add_records(self, header: BatchHeader, batch: Buffer) -> None:
        body = read_body(batch, 0, header)
        if header.record_count <= min(self._room, LARGE_BATCH_RECORDS):
            self._entries.update(self._last_of_each_key(header, body))
            return
        for _record in iter_keys(body, header):
            pass  # it is a batch of records
        self._add_one_by_one(header, body)

    def _last_of_each_key(self, header: BatchHeader, body: bytes) -> dict[bytes, Entry]:
        base_offset, first = header.base_offset, self.start_offset - header.base_offset
        return {
            key if len(key) <= LONG_KEY_BYTES else _digest(key): (base_offset + delta) << 1 | is_tombstone
            for delta, _time, key, is_tombstone, _begin, _rest, _end in iter_keys(body, header)
            if key is not None and delta >= first
        }

    def _add_one_by_one(self, header: BatchHeader, body: bytes) -> None:
        entries, room = self._entries, self._room
        for delta, _time, key, is_tombstone, _begin, _rest, _end in iter_keys(body, header):
            offset = header.base_offset + delta
            if key is None or offset < self.start_offset:
                continue
            key = key if len(key) <= LONG_KEY_BYTES else _digest(key)
            if key not in entries:
                if not room:
                    self.full_at = offset
                    return
                room -= 1
            entries[key] = offset << 1 | is_tombstone

    @property
    def _room(self) -> int:
        """Number of further keys that fit."""
        return self._max_keys - len(self._entries) - len(self.unreadable)

    def close(self) -> None:
        """All batches are added."""
        self._survivors = sorted(self._entries.values())

    # -- asking -----------------------------------------------------------------------------------------------------

    def is_last(self, key: bytes, offset: int) -> bool:
        """No later record of this key is known."""
        entry = self._entries.get(key if len(key) <= LONG_KEY_BYTES else _digest(key))
        return entry is None or offset >= entry >> 1

    def survivors(self, first_offset: int, last_offset: int) -> Sequence[Entry]:
        """The last records of their keys, among the added records of this range."""
        survivors = self._survivors
        begin = bisect_left(survivors, first_offset << 1)
        return survivors[begin : bisect_left(survivors, (last_offset + 1) << 1, begin)]


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=DIGEST_BYTES).digest()
