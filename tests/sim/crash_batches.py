"""Batches that lives write, and what they remember of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from random import Random
from typing import NamedTuple

from minikafka.records.batch import BatchHeader, iter_batches, parse_header
from minikafka.records.build import build_batch
from minikafka.records.control import EndTxnMarker, build_end_txn_marker
from minikafka.records.record import Record
from minikafka.storage.log import Log
from minikafka.storage.producer_state import BATCHES_KEPT
from minikafka.storage.snapshots import marker_in

NOW_MS = 1_700_000_000_000
PRODUCERS = (-1, 7, 8)
TRANSACTIONAL_PRODUCERS = (21, 22)


class Written(NamedTuple):
    """A batch as it was, or was just about to be, written."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes


class Producers:
    """The sequence numbers of some idempotent producers; they go by what the log holds.

    Each has its last five batches in flight: it may send them again after a restart.
    """

    def __init__(self, written: Iterable[Written] = ()) -> None:
        self._next = {producer: 0 for producer in PRODUCERS if producer >= 0}
        self._in_flight = {producer: deque[int](maxlen=BATCHES_KEPT) for producer in self._next}
        for batch in written:
            header = parse_header(batch.data)
            if header.producer_id in self._next:
                self._next[header.producer_id] = header.last_sequence + 1
                self._in_flight[header.producer_id].append(header.base_sequence)

    def after_loss(self, written: Iterable[Written]) -> Producers:
        """Of these producers, when the log holds no more than that. Nothing older than before is in flight."""
        left = Producers(written)
        for producer, sequences in left._in_flight.items():
            kept = [sequence for sequence in sequences if sequence in self._in_flight[producer]]
            left._in_flight[producer] = deque(kept, BATCHES_KEPT)
        return left

    def may_repeat(self, header: BatchHeader) -> bool:
        """True for a batch in flight."""
        return header.base_sequence in self._in_flight.get(header.producer_id, ())

    def batch(self, rng: Random) -> bytearray:
        """One to three records by one of the producers."""
        producer, count = rng.choice(PRODUCERS), rng.randint(1, 3)
        records = [
            Record(index, NOW_MS + rng.randrange(100), b"%d" % rng.randrange(5), rng.randbytes(rng.randrange(150)))
            for index in range(count)
        ]
        if producer < 0:
            return build_batch(records)
        sequence = self._next[producer]
        self._next[producer] += count
        self._in_flight[producer].append(sequence)
        return build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)


def transactional_batch(log: Log, rng: Random) -> bytearray:
    """A record in a transaction, or the end of one that is open."""
    producer = rng.choice(TRANSACTIONAL_PRODUCERS)
    entry = log.producers.get(producer)
    if entry is not None and entry.current_txn_first_offset >= 0 and rng.random() < 0.5:
        return build_end_txn_marker(producer, 0, EndTxnMarker(rng.random() < 0.3, 0), timestamp=NOW_MS)
    sequence = 0 if entry is None else entry.last_sequence + 1
    record = Record(0, NOW_MS, b"key", rng.randbytes(rng.randrange(150)))
    return build_batch([record], producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True)


def check_transactions(log: Log, served: bytes) -> None:
    """Open transactions, and the indexes of aborted ones, are as the served batches tell.

    Where the log does not begin at its first record it may know more.
    """
    open_since: dict[int, int] = {}
    aborted: dict[tuple[int, int], int] = {}
    for at, header in iter_batches(served):
        if not header.is_transactional:
            continue
        if not header.is_control:
            open_since.setdefault(header.producer_id, header.base_offset)
            continue
        marker = marker_in(served[at : at + header.size_in_bytes], header)
        first = open_since.pop(header.producer_id, None)
        if marker is not None and first is not None and not marker.is_commit:
            aborted[header.producer_id, header.base_offset] = first
    known = {
        entry.producer_id: entry.current_txn_first_offset
        for entry in log.producers.entries
        if entry.current_txn_first_offset >= 0
    }
    indexed = {
        (one.producer_id, one.last_offset): one.first_offset for segment in log.segments for one in segment.aborted
    }
    assert open_since.keys() <= known.keys(), "what is open by the batches is open"
    assert aborted.keys() <= indexed.keys(), "an aborted transaction is in the index"
    if log.log_start_offset == 0:
        assert known == open_since, "what is open is so by the batches"
        assert indexed == aborted, "what is in the index was aborted"


def read_all(log: Log) -> bytes:
    """All batches of a log, segment after segment."""
    parts, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 30).read()
        assert data, "every offset between the start and the end of a log can be read"
        parts.append(data)
        offset = headers(data)[-1].next_offset
    return b"".join(parts)


def headers(data: bytes) -> list[BatchHeader]:
    """The headers of whole batches."""
    return [header for _position, header in iter_batches(data)]


def check_producers(log: Log, found: Sequence[BatchHeader], producers: Producers | None = None) -> None:
    """The state of each producer is that of its last batch in the log; batches in flight are known if sent again."""
    for header in found:
        if producers is not None and producers.may_repeat(header):
            assert log.producers.has(header), "a batch that its producer may send again is known"
    last = {header.producer_id: header for header in found if header.producer_id >= 0 and not header.is_transactional}
    for entry in log.producers.entries:
        if entry.producer_id in TRANSACTIONAL_PRODUCERS:
            continue
        header = last.pop(entry.producer_id, None)
        if header is None:
            assert entry.last_offset < log.log_start_offset, "no producer is known by what the log does not hold"
        else:
            state = entry.epoch, entry.last_sequence, entry.last_offset
            expected = header.producer_epoch, header.last_sequence, header.last_offset
            assert state == expected, "a producer goes on where its last batch in the log ended"
    assert not last, "every producer that the log holds a batch of is known"


def check_epochs(log: Log, found: Sequence[BatchHeader]) -> None:
    """The leader epochs of the log are those of its batches."""
    for header in found:
        if header.base_offset >= log.log_start_offset:
            assert log.epoch_for_offset(header.base_offset) == header.leader_epoch, "epochs are those of the batches"
    bases = {header.base_offset for header in found}
    for entry in log.epoch_entries[1:]:
        assert entry.start_offset in bases or entry.start_offset == log.log_end_offset, (
            "an epoch begins with a batch of the log"
        )
