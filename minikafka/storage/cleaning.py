"""The cleaner's work on one batch: the records that stay.

Records of an aborted transaction go (row T26). Its marker, and that of a committed one, stays as long as a batch of the
transaction is there. Then it goes as a tombstone does: the first pass gives it a delete horizon, a later one drops it.
Like the last batch of each producer, the marker with its last epoch stays, without a record if need be.

The first batch of each leader epoch stays, too. Who knows only the batches (a follower that fetched them, a copy for
another directory, a start without the epoch file) takes an epoch to begin with its first batch that is left. If that is
too late, what another replica alone wrote there, in the epoch before, passes for a part of this log.

Offsets do not change, nor does the offset range of a batch, so producer state can still be rebuilt from the batches. A
batch that keeps all its records is copied unchanged. For the part that was mapped in this pass, the map knows the
surviving offsets, so most batches are not decoded.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from minikafka.errors import KafkaError
from minikafka.model import NO_OFFSET
from minikafka.records.batch import (
    DELETE_HORIZON_FLAG,
    BatchHeader,
    Buffer,
    parse_header,
)
from minikafka.records.build import rebuild_batch
from minikafka.records.keys import KeyedRecord, iter_keys
from minikafka.records.read import read_body
from minikafka.storage.cleaned_transactions import CleanedTransactions
from minikafka.storage.key_map import LARGE_BATCH_RECORDS, KeyMap
from minikafka.storage.producer_state import ProducerEntry
from minikafka.storage.transaction_index import AbortedTransaction

_NEVER_MS: Final = (1 << 63) - 1
"""A header has no later time; ``delete.retention.ms`` may be as large."""


class Kept(NamedTuple):
    """A batch to write, and the aborted transaction that it ends, if any batch of that is left."""

    last_offset: int
    batch: Buffer
    max_timestamp: int
    aborted: AbortedTransaction | None = None


class LastOfProducer(NamedTuple):
    """What the log must keep of a producer: its last batch of this epoch; with none (-1), the markers of the epoch."""

    epoch: int
    offset: int

    @classmethod
    def of(cls, entry: ProducerEntry) -> LastOfProducer:
        """That of a producer that the log knows."""
        return cls(entry.epoch, entry.last_offset)


class Cleaner:
    """Decides batch by batch. Batches from ``end_offset`` on were not mapped, and stay."""

    def __init__(
        self,
        keys: KeyMap,
        end_offset: int,
        transactions: CleanedTransactions,
        last_of_producer: Mapping[int, LastOfProducer],
        epoch_starts: Container[int],
        wall_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._keys = keys
        self._end_offset = end_offset
        self._transactions = transactions
        self._last_of_producer = last_of_producer
        self._epoch_starts = epoch_starts
        self._wall_ms = wall_ms
        self._horizon_ms = min(wall_ms + delete_retention_ms, _NEVER_MS)  # of what has none yet

    def clean(self, header: BatchHeader, batch: Buffer) -> Kept | None:
        """The batch with its remaining records; None to drop it."""
        unchanged = Kept(header.last_offset, batch, header.max_timestamp)
        if header.is_control:
            return self._clean_control(unchanged, header)
        self._transactions.on_batch(header)
        if header.base_offset >= self._end_offset:
            return unchanged
        if self._transactions.is_aborted(header):
            return self._emptied(unchanged, header)
        if header.base_offset in self._keys.unreadable:
            return unchanged
        offsets: Container[int] | None = None
        if self._is_mapped(header):
            survivors = self._keys.survivors(header.base_offset, header.last_offset)
            if not survivors and not self._must_stay(header):
                return None
            if len(survivors) == header.record_count and not any(entry & 1 for entry in survivors):
                return unchanged
            offsets = {entry >> 1 for entry in survivors}
        try:
            return self._clean_records(unchanged, header, read_body(batch, 0, header), offsets)
        except KafkaError:
            # An earlier pass kept it because nobody can tell its records from each other; or a timestamp is beyond what
            # a batch can be written with.
            return unchanged

    def _is_mapped(self, header: BatchHeader) -> bool:
        """Every record of the batch was mapped in this pass by its own offset, and the batch has no horizon yet."""
        return (
            header.base_offset >= self._keys.start_offset
            and header.last_offset < self._end_offset
            and not header.attributes & DELETE_HORIZON_FLAG
        )

    def _must_stay(self, header: BatchHeader) -> bool:
        if header.base_offset in self._epoch_starts:
            return True
        last = self._last_of_producer.get(header.producer_id)
        if last is None:
            return False
        if last.offset == NO_OFFSET:
            return header.is_control and header.producer_epoch == last.epoch
        return last.offset == header.last_offset

    def _clean_control(self, unchanged: Kept, header: BatchHeader) -> Kept | None:
        if not header.has_producer_id:
            return unchanged
        has_batches, aborted = self._transactions.on_marker(header)
        if has_batches or header.base_offset >= self._end_offset:
            return unchanged._replace(aborted=aborted)
        if not header.record_count or (header.has_delete_horizon and self._wall_ms >= header.base_timestamp):
            return self._emptied(unchanged, header)
        if header.has_delete_horizon:
            return unchanged
        body, horizon_ms = read_body(unchanged.batch, 0, header), self._horizon_ms
        rebuilt = rebuild_batch(header, body, iter_keys(body, header), delete_horizon_ms=horizon_ms)
        return unchanged._replace(batch=rebuilt)

    def _emptied(self, unchanged: Kept, header: BatchHeader) -> Kept | None:
        """The batch without its records, if it must stay."""
        if not self._must_stay(header):
            return None
        return unchanged._replace(batch=rebuild_batch(header, b"", ())) if header.record_count else unchanged

    def _clean_records(
        self, unchanged: Kept, header: BatchHeader, body: bytes, offsets: Container[int] | None
    ) -> Kept | None:
        kept: Iterable[KeyedRecord] = self._kept(header, body, offsets)
        if header.record_count <= LARGE_BATCH_RECORDS:
            kept = list(kept)
        count, has_tombstones = 0, False
        for record in kept:
            count += 1
            has_tombstones = has_tombstones or record[3]
        if not count and not self._must_stay(header):
            return None
        needs_horizon = has_tombstones and not header.has_delete_horizon
        if count == header.record_count and not needs_horizon:
            return unchanged
        if header.record_count > LARGE_BATCH_RECORDS:
            kept = self._kept(header, body, offsets)  # once more, rather than millions in memory
        horizon_ms = self._horizon_ms if needs_horizon else None
        rebuilt = rebuild_batch(header, body, kept, delete_horizon_ms=horizon_ms)
        return Kept(header.last_offset, rebuilt, parse_header(rebuilt).max_timestamp)

    def _kept(self, header: BatchHeader, body: bytes, offsets: Container[int] | None) -> Iterator[KeyedRecord]:
        """The records that stay: those at ``offsets`` if these are known."""
        base_offset = header.base_offset
        if offsets is not None:
            return (record for record in iter_keys(body, header) if base_offset + record[0] in offsets)
        is_past_horizon = header.has_delete_horizon and self._wall_ms >= header.base_timestamp
        return (
            record
            for record in iter_keys(body, header)
            if record[2] is not None
            and not (is_past_horizon and record[3])
            and self._keys.is_last(record[2], base_offset + record[0])
        )
