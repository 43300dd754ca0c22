"""What each producer wrote last to a log: duplicates, gaps and fenced epochs are told from it (KIP-98, KIP-360).

Per producer id: its epoch, the last five batches, and the first offset of its open transaction if it has one. The
rules are those of Kafka's ProducerStateManager and ProducerAppendInfo:

- same epoch, and both sequences equal those of one of the last five batches: a duplicate, answered with the old offset;
- an older epoch: INVALID_PRODUCER_EPOCH; a newer epoch must begin at sequence 0;
- otherwise the first sequence must follow the last one (2^31-1 is followed by 0), or OUT_OF_ORDER_SEQUENCE_NUMBER;
- a producer that is not known (its state expired, or its records and the ends of its transactions were deleted) may
  begin anywhere, but not behind the first batch that it tried (:mod:`~minikafka.storage.first_batches`).

A follower and a restarting log replay batches without these checks: the leader made them.

A log remembers PRODUCERS_MAX producers, those that wrote last: nothing else bounds them, since every client may choose
producer ids. Apache Kafka remembers all until they expire.

Expiry (``producer.id.expiration.ms``) goes by the monotonic clock of the process and by what was appended between two
sweeps, not by record timestamps: a jump of the wall clock forgets nobody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from operator import itemgetter
from typing import Final, NamedTuple

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_OFFSET, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP
from minikafka.records.batch import CONTROL_FLAG, MAX_SEQUENCE, TRANSACTIONAL_FLAG, BatchHeader
from minikafka.records.control import EndTxnMarker
from minikafka.storage.first_batches import FirstBatches
from minikafka.storage.transaction_index import AbortedTransaction

BATCHES_KEPT = 5  # as many as a producer may have in flight
PRODUCERS_MAX: Final = 10_000
"""Of one log. With all their batches a snapshot of them takes 30 ms of the loop at each roll."""
FORGOTTEN_AT_ONCE: Final = 1_000
EPOCH_RAISED_SINCE: Final = 2
"""Transaction version from which on each end of a transaction has a new producer epoch (KIP-890)."""

_marker_of: Final = itemgetter(1)
_serials: Final = count(1)
"""Of ends of transactions in all logs: a log that is cut or moved gets a new state, in which no number comes again."""


class ProducedBatch(NamedTuple):
    """A batch that a producer wrote. Offsets are the log's."""

    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int  # last offset - first offset
    timestamp: int

    @property
    def first_offset(self) -> int:
        """Offset of the batch's first record."""
        return self.last_offset - self.offset_delta


@dataclass(slots=True, eq=False)
class ProducerEntry:
    """One producer id in one log."""

    producer_id: int
    epoch: int = NO_PRODUCER_EPOCH
    batches: tuple[ProducedBatch, ...] = ()
    coordinator_epoch: int = NO_EPOCH
    current_txn_first_offset: int = NO_OFFSET
    last_timestamp: int = NO_TIMESTAMP
    is_active: bool = True  # wrote something since the last sweep
    idle_since_ms: int = 0  # monotonic; meaningful once a sweep saw it idle
    last_end: int = 0  # serial number of the last end of its transactions, or of when it was not known

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; -1 when no batch of this epoch is known."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """Offset of the last record; -1 when no batch of this epoch is known."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def had_transactions(self) -> bool:
        """It has one, or a marker ended one."""
        is_open = self.current_txn_first_offset != NO_OFFSET
        return is_open or self.coordinator_epoch != NO_EPOCH or not self.batches

    def find_duplicate(self, header: BatchHeader) -> ProducedBatch | None:
        """The kept batch with the epoch and the sequences of ``header``; None if it has none (row T47)."""
        if header.producer_epoch == self.epoch and header.base_sequence != NO_SEQUENCE:
            for batch in self.batches:
                if batch.first_sequence == header.base_sequence and batch.last_sequence == header.last_sequence:
                    return batch
        return None

    def before(self, offset: int) -> ProducerEntry | None:
        """What was known of the producer when the log ended at ``offset``; None when the kept batches do not tell."""
        kept = [batch for batch in self.batches if batch.last_offset < offset]
        if not kept:
            return None
        entry = ProducerEntry(self.producer_id, self.epoch)
        entry.batches = tuple(kept)
        entry.coordinator_epoch = self.coordinator_epoch
        entry.last_timestamp = kept[-1].timestamp
        return entry

    def enter_epoch(self, epoch: int) -> None:
        """Sequences start anew with a new epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches = ()

    def add(self, *batches: ProducedBatch) -> None:
        """It wrote these after the others."""
        self.batches = (*self.batches, *batches)[-BATCHES_KEPT:]


class ProducerState:
    """Every producer of one log, and the transactions that hold back its last stable offset."""

    __slots__ = ("_completed", "_entries", "_first", "_looked_at", "_ongoing", "_unknown_since")

    def __init__(self) -> None:
        self._unknown_since = next(_serials)  # whose end before that was the last is not known
        self._entries: dict[int, ProducerEntry] = {}  # who wrote longest ago comes first
        self._ongoing: dict[int, int] = {}  # first offset of an open transaction -> producer id, in offset order
        self._completed: list[tuple[int, int]] = []  # (first offset, marker offset), until replicated
        self._first = FirstBatches()  # of producers that have no entry
        self._looked_at = 0  # how many remained when it was last looked whom to forget

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def entries(self) -> list[ProducerEntry]:
        """The producers. Who wrote longest ago comes first."""
        return list(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        """What is known of a producer."""
        return self._entries.get(producer_id)

    def add(self, entry: ProducerEntry) -> None:
        """Restore an entry from a snapshot. After all of them: :meth:`restored`."""
        entry.last_end = self._unknown_since
        self._entries[entry.producer_id] = entry
        if entry.current_txn_first_offset != NO_OFFSET:
            self._ongoing[entry.current_txn_first_offset] = entry.producer_id

    def restored(self) -> None:
        """All entries of a snapshot are there."""
        self._ongoing = dict(sorted(self._ongoing.items()))

    # -- appends ----------------------------------------------------------------------------------------------------

    def check(self, header: BatchHeader) -> ProducedBatch | None:
        """May a leader append this producer's records? Their older self if they are a duplicate; else a KafkaError."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            self._first.check(header)
            return None
        duplicate = entry.find_duplicate(header)
        if duplicate is not None:
            return duplicate
        if header.producer_epoch < entry.epoch:
            raise _old_epoch(header, entry)
        if header.base_sequence != NO_SEQUENCE:
            self._check_sequence(entry, header)
        self._check_transaction(entry, header)
        return None

    def expect(self, header: BatchHeader, first_sequence: int) -> None:
        """A producer's batch came, and may be refused for now. If the producer is not known, none begins behind it."""
        if header.producer_id not in self._entries and header.base_sequence != NO_SEQUENCE:
            self._first.expect(header, first_sequence)

    def has(self, header: BatchHeader) -> bool:
        """True for a batch like one of its producer's last five: :meth:`check` finds a duplicate."""
        entry = self._entries.get(header.producer_id)
        return entry is not None and not header.attributes & CONTROL_FLAG and entry.find_duplicate(header) is not None

    def is_in_transaction(self, header: BatchHeader) -> bool:
        """True while a transaction of this producer, in this epoch, is open here."""
        entry = self._entries.get(header.producer_id)
        is_open = entry is not None and entry.current_txn_first_offset != NO_OFFSET
        return entry is not None and is_open and entry.epoch == header.producer_epoch

    def last_end_of(self, producer_id: int) -> int:
        """A number that is another one after each end of a transaction of this producer here, by a marker.

        Whoever asked the coordinator before the last of them must ask again (KIP-890). It may be another one without
        an end, too, after producers were forgotten or the log was cut: then nobody knows.
        """
        entry = self._entries.get(producer_id)
        return self._unknown_since if entry is None else entry.last_end

    def append(self, header: BatchHeader, base_offset: int) -> None:
        """A data batch of a producer was given its offset."""
        entry = self._entries.pop(header.producer_id, None)
        if entry is None:
            entry = self._new_entry(header)
            self._first.done(header.producer_id)
        elif entry.epoch != header.producer_epoch:
            entry.enter_epoch(header.producer_epoch)
        self._entries[header.producer_id] = entry
        delta = header.last_offset_delta
        entry.add(
            ProducedBatch(header.base_sequence, header.last_sequence, base_offset + delta, delta, header.max_timestamp)
        )
        entry.last_timestamp = header.max_timestamp
        entry.is_active = True
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = header.producer_id

    def check_marker(self, header: BatchHeader, marker: EndTxnMarker, transaction_version: int) -> None:
        """May a leader append this end of a transaction? Neither its producer nor its coordinator may be an old one.

        From transaction version 2 on the coordinator raises the producer's epoch for each marker (KIP-890), so a
        marker with the present epoch comes too late. It repeats another if no transaction is open: allowed (row T25).
        """
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        is_late = transaction_version >= EPOCH_RAISED_SINCE and entry.current_txn_first_offset != NO_OFFSET
        if header.producer_epoch < entry.epoch + is_late:
            raise _old_epoch(header, entry)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"the marker for producer {header.producer_id} comes from coordinator epoch "
                f"{marker.coordinator_epoch}, but epoch {entry.coordinator_epoch} already wrote one",
            )

    def end_transaction(self, header: BatchHeader, marker: EndTxnMarker, offset: int) -> AbortedTransaction | None:
        """A commit or abort marker was given its offset. The transaction if it is aborted now, and had records."""
        entry = self._entries.pop(header.producer_id, None) or self._new_entry(header)
        self._entries[header.producer_id] = entry
        entry.enter_epoch(header.producer_epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = header.max_timestamp
        entry.is_active = True
        entry.last_end = next(_serials)
        first_offset = entry.current_txn_first_offset
        if first_offset == NO_OFFSET:
            return None
        entry.current_txn_first_offset = NO_OFFSET
        del self._ongoing[first_offset]
        self._completed.append((first_offset, offset))
        if marker.is_commit:
            return None
        return AbortedTransaction(header.producer_id, first_offset, offset, next(iter(self._ongoing), offset + 1))

    def enter_epoch(self, header: BatchHeader) -> None:
        """The producer was in that epoch: an earlier one is over."""
        entry = self._entries.pop(header.producer_id, None) or self._new_entry(header)
        self._entries[header.producer_id] = entry
        entry.enter_epoch(header.producer_epoch)
        entry.last_timestamp = header.max_timestamp
        entry.is_active = True

    def _new_entry(self, header: BatchHeader) -> ProducerEntry:
        """Who has an open transaction is not forgotten, so a look may be in vain: it is not done for each."""
        self._looked_at = min(self._looked_at, len(self._entries))
        if len(self._entries) >= max(PRODUCERS_MAX, self._looked_at + FORGOTTEN_AT_ONCE):
            self.keep_newest(PRODUCERS_MAX - FORGOTTEN_AT_ONCE)
            self._looked_at = len(self._entries)
        return ProducerEntry(header.producer_id, header.producer_epoch, last_end=self._unknown_since)

    def _check_sequence(self, entry: ProducerEntry, header: BatchHeader) -> None:
        first = header.base_sequence
        if header.producer_epoch != entry.epoch:
            if first != 0 and entry.epoch != NO_PRODUCER_EPOCH:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {header.producer_id} begins epoch {header.producer_epoch} at sequence {first}, not 0",
                )
            return
        last = entry.last_sequence
        if first != last + 1 and not (first == 0 and last == MAX_SEQUENCE):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {header.producer_id} sent sequence {first} after {last}",
            )

    def _check_transaction(self, entry: ProducerEntry, header: BatchHeader) -> None:
        if entry.current_txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_FLAG:
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has an open transaction here and wrote outside of it",
            )

    # -- transactions -----------------------------------------------------------------------------------------------

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """First offset of a transaction that is open, or whose end is not below the high watermark yet."""
        if not self._completed and not self._ongoing:
            return None
        self.forget_replicated(high_watermark)
        firsts = [first for first, _marker in self._completed]
        if self._ongoing:
            firsts.append(next(iter(self._ongoing)))
        return min(firsts, default=None)

    @property
    def unreplicated_ends(self) -> int:
        """Transactions that have ended, by markers that may not be replicated yet."""
        return len(self._completed)

    def forget_replicated(self, high_watermark: int) -> None:
        """Markers below it hold nothing back. Whoever moves it calls this: of a follower's log nobody asks anything."""
        if self._completed:
            del self._completed[: bisect_left(self._completed, high_watermark, key=_marker_of)]

    @property
    def open_transactions(self) -> list[tuple[int, int]]:
        """First offset and producer id of each."""
        return list(self._ongoing.items())

    def reopen(self, producer_id: int, first_offset: int) -> None:
        """The open transaction of that producer begins there, or is over (-1). After all of them: :meth:`restored`."""
        entry = self._entries[producer_id]
        del self._ongoing[entry.current_txn_first_offset]
        entry.current_txn_first_offset = first_offset
        if first_offset != NO_OFFSET:
            self._ongoing[first_offset] = producer_id
        else:  # it stays one that had transactions
            entry.coordinator_epoch = max(entry.coordinator_epoch, 0)

    @property
    def first_open_offset(self) -> int | None:
        """First offset of the transactions that are open."""
        return next(iter(self._ongoing), None)

    def has_late_transaction(self, before_ms: int) -> bool:
        """True when who has the oldest open transaction wrote nothing since then, by the time stamps of its records."""
        for producer_id in self._ongoing.values():
            return self._entries[producer_id].last_timestamp < before_ms
        return False

    # -- forgetting -------------------------------------------------------------------------------------------------

    @property
    def has_transactions(self) -> bool:
        """True after the first transaction: only the batches tell what was known of it at an earlier offset.

        Also for one that ended long ago: a cut of damage, or after an unclean election, may open it again. So of those
        who had transactions one is never forgotten.
        """
        return any(entry.had_transactions for entry in self._entries.values())

    def since(self, offset: int) -> list[ProducerEntry]:
        """The producers that wrote at or behind ``offset``."""
        return [entry for entry in self._entries.values() if entry.last_offset >= offset]

    def rewind(self, entries: Mapping[int, ProducerEntry | None]) -> None:
        """The log was cut: put back what was known of these producers before, by id; None for nothing."""
        self._unknown_since = next(_serials)
        for producer_id, entry in entries.items():
            if entry is None:
                self._entries.pop(producer_id, None)
            else:
                entry.last_end = self._unknown_since
                self._entries[producer_id] = entry

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for ``expiration_ms`` (monotonic); call it periodically. How many."""
        expired = []
        for entry in self._entries.values():
            if entry.is_active:
                entry.is_active = False
                entry.idle_since_ms = now_ms
            elif now_ms - entry.idle_since_ms >= expiration_ms and entry.current_txn_first_offset == NO_OFFSET:
                expired.append(entry.producer_id)
        return self._forget(expired)

    def keep_newest(self, count: int) -> int:
        """Forget all but ``count`` producers: those that wrote longest ago and have no open transaction. How many."""
        excess = max(0, len(self._entries) - count)
        idle = (each for each in self._entries.values() if each.current_txn_first_offset == NO_OFFSET)
        forgotten = [each.producer_id for each in islice(idle, excess)]
        return self._forget(forgotten)

    def _forget(self, producer_ids: Sequence[int]) -> int:
        """Forget them; how many. One of those who had transactions stays: see :attr:`has_transactions`."""
        if not producer_ids:
            return 0
        gone = [self._entries.pop(producer_id) for producer_id in producer_ids]
        self._unknown_since = next(_serials)
        witness = next((entry for entry in reversed(gone) if entry.had_transactions), None)
        if witness is None or self.has_transactions:
            return len(gone)
        self._entries = {witness.producer_id: witness, **self._entries}
        return len(gone) - 1

    def clear(self) -> None:
        """The log was replaced."""
        self._unknown_since = next(_serials)
        self._entries.clear()
        self._ongoing.clear()
        self._completed.clear()


def _old_epoch(header: BatchHeader, entry: ProducerEntry) -> KafkaError:
    return KafkaError(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {header.producer_id} writes with epoch {header.producer_epoch}, "
        f"but epoch {entry.epoch} already wrote here",
    )
