"""One fetch answer for one partition, taken as records or as batches (pure).

Records are decoded one batch at a time when they are taken. Batches are returned undecoded, as parts of the answer's
buffer, for decoding in bulk.

For a read_committed consumer, aborted transactions are left out: the answer lists them by producer and first offset,
and each lasts until the producer's abort marker (KIP-98).
"""

from __future__ import annotations

from collections import deque
from operator import lt

from minikafka.client.consuming.positions import Position
from minikafka.client.records import ConsumerRecord, FetchedBatches
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import OffsetAndEpoch
from minikafka.records.batch import BatchHeader, crc_is_valid, iter_batches
from minikafka.records.control import ControlType, control_type
from minikafka.records.read import corrupt, iter_records
from minikafka.wire.messages.fetch import AbortedTransaction, PartitionData

_new_tuple = tuple.__new__  # a NamedTuple without its Python-level constructor: half the time


class Fetched:
    """Records from ``position.fetched`` on. ``position.fetched`` moves to :attr:`end` when this is put into a buffer.

    Raises KafkaError(CORRUPT_MESSAGE) for bytes that are not record batches.
    """

    def __init__(self, position: Position, data: PartitionData, *, check_crcs: bool) -> None:
        self.position = position
        self._generation = position.generation
        self._start = position.fetched.offset
        self._bytes = memoryview(data.records or b"")
        self._check_crcs = check_crcs
        self._aborted = deque(sorted(data.aborted_transactions or (), key=_first_offset))
        self._aborting: set[int] = set()
        self._batches = deque((at, header) for at, header in iter_batches(self._bytes) if self._is_wanted(header))
        last = self._batches[-1][1] if self._batches else None
        self.end = position.fetched if last is None else OffsetAndEpoch(last.next_offset, last.leader_epoch)
        self._opened: tuple[int, BatchHeader] | None = None  # the batch being taken
        self._records: list[ConsumerRecord] = []  # of that batch
        self._taken = 0

    @property
    def is_stale(self) -> bool:
        """True when the position was moved since, except by taking records."""
        return self._generation != self.position.generation

    @property
    def is_exhausted(self) -> bool:
        """True when everything was taken."""
        return self._taken == len(self._records) and not self._batches

    def take(self, limit: int) -> list[ConsumerRecord]:
        """Up to ``limit`` of the next records, all of one batch; empty when none is left.

        The position moves after them. Raises KafkaError for a damaged batch; the position is then before it.
        """
        while self._taken == len(self._records):
            if not self._batches:
                return []
            self._open_batch()
        taken = self._records[self._taken : self._taken + limit]
        self._taken += len(taken)
        if self._taken == len(self._records):
            self._close()
        else:
            self.position.advance(OffsetAndEpoch(taken[-1].offset + 1, taken[-1].leader_epoch))
        return taken

    def take_batches(self) -> FetchedBatches | None:
        """All remaining batches, up to a damaged one; None when none is left.

        The position moves after them. Raises KafkaError when the very next batch is damaged.
        """
        start_offset = self.position.consumed.offset
        batches = [] if self._opened is None else [self._opened]
        self._close()
        try:
            while self._batches:
                if self._check_next():
                    batches.append(self._batches[0])
                self._opened = self._batches.popleft()
                self._close()
        except KafkaError:
            if not batches:
                raise
        end_offset = self.position.consumed.offset
        if end_offset == start_offset:
            return None
        tp, high_watermark = self.position.tp, self.position.high_watermark
        return FetchedBatches(tp, self._bytes, tuple(batches), start_offset, end_offset, high_watermark)

    def _open_batch(self) -> None:
        """Decode the next batch; it is closed at once if it has nothing for the user."""
        records = self._decode(*self._batches[0]) if self._check_next() else []
        self._opened = self._batches.popleft()
        self._records = records
        if not records:
            self._close()

    def _close(self) -> None:
        """The position goes behind the batch being taken, if any."""
        if self._opened is not None:
            _, header = self._opened
            self.position.advance(OffsetAndEpoch(header.next_offset, header.leader_epoch))
        self._opened, self._records, self._taken = None, [], 0

    def _check_next(self) -> bool:
        """False when the next batch is to be left out; KafkaError when it is damaged."""
        at, header = self._batches[0]
        if self._check_crcs and not crc_is_valid(self._bytes, at, header):
            message = f"{self.position.tp}: the batch at offset {header.base_offset} arrived damaged"
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
        return not self._is_left_out(at, header)

    def _decode(self, at: int, header: BatchHeader) -> list[ConsumerRecord]:
        """Brokers take any offsets inside of a batch. The position goes by them, so wrong ones are an error: each lies
        in the batch, behind the one before."""
        topic, partition = self.position.tp
        epoch, start = header.leader_epoch, self._start
        records = [
            _new_tuple(ConsumerRecord, (topic, partition, offset, timestamp, key, value, headers, epoch))
            for offset, timestamp, key, value, headers in iter_records(self._bytes, at, header)
        ]
        if not records:
            return records
        offsets = [record.offset for record in records]
        is_within = offsets[0] >= header.base_offset and offsets[-1] <= header.last_offset
        if not is_within or not all(map(lt, offsets, offsets[1:])):
            corrupt(header, "a record has an offset outside the batch, or not behind the one before")
        return records if offsets[0] >= start else [record for record in records if record.offset >= start]

    def _is_wanted(self, header: BatchHeader) -> bool:
        """A fetch begins with the batch that holds its offset; that batch may begin earlier."""
        return header.next_offset > self._start

    def _is_left_out(self, at: int, header: BatchHeader) -> bool:
        while self._aborted and self._aborted[0].first_offset <= header.last_offset:
            self._aborting.add(self._aborted.popleft().producer_id)
        if header.is_control:
            marker = next(iter_records(self._bytes, at, header), None)
            if marker is not None and control_type(marker) is ControlType.ABORT:
                self._aborting.discard(header.producer_id)
            return True
        return header.is_transactional and header.producer_id in self._aborting


def _first_offset(transaction: AbortedTransaction) -> int:
    return transaction.first_offset
