"""Records gathered into batches per partition, in order (pure).

At most one batch per partition is in flight. That keeps the order without bookkeeping across batches: a failed batch
goes back to the front of its queue with its stamp (producer id, epoch, sequence), so the broker detects a duplicate.
Throughput comes from large batches and many partitions.

A batch is *open* (at the end of its queue, records may be added), *in flight*, or *waiting for a retry* (at the front
of its queue, closed). It leaves by :meth:`Accumulator.delivered` or :meth:`Accumulator.give_up`. A batch that arrived
encoded is closed from the start.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from minikafka.client.producing.sequences import Sequences, Stamp
from minikafka.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, ZERO_TOPIC_ID, Compression, TopicPartition
from minikafka.records.batch import parse_header, write_header
from minikafka.records.build import BatchBuilder, upper_bound_size
from minikafka.records.record import Header

Token = TypeVar("Token")

_NOBODY: Final = Stamp(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)


@dataclass(slots=True, eq=False)
class Batch(Generic[Token]):
    """Records of one partition that are sent together, with a token for each record's caller."""

    serial: int
    tp: TopicPartition
    created_ms: int
    builder: BatchBuilder
    tokens: list[Token] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    stamp: Stamp | None = None
    attempts: int = 0
    topic_id: UUID = ZERO_TOPIC_ID  # topic id of its first attempt
    buffered_bytes: int = 0  # its share of the buffer, before compression
    not_before_ms: int = 0
    failure: str = ""  # error of the last attempt, in words
    is_expired: bool = False  # its records have failed, but its request is still under way
    failed_leader_epoch: int | None = None  # leader epoch of a failure because of the leader
    encoded: bytearray = field(default_factory=bytearray)  # kept, so that a retry is the same batch to the byte

    @property
    def is_open(self) -> bool:
        """True until it is encoded, at its first attempt."""
        return not self.encoded

    @property
    def record_count(self) -> int:
        """Number of records, and so of sequence numbers."""
        return parse_header(self.encoded).record_count if self.encoded else len(self.tokens)

    @property
    def size_bytes(self) -> int:
        """Bytes of the encoded batch, or an estimate."""
        return len(self.encoded) or self.builder.size_in_bytes

    def append(
        self, key: bytes | None, value: bytes | None, timestamp: int, headers: Sequence[Header], token: Token
    ) -> None:
        """Add a record."""
        self.builder.append(key, value, timestamp, headers)
        self.timestamps.append(timestamp)
        self.tokens.append(token)

    def close(self, stamp: Stamp | None) -> None:
        """Encode it with ``stamp``."""
        self.stamp = stamp
        if stamp is not None:
            builder = self.builder
            builder.producer_id, builder.producer_epoch, builder.base_sequence = stamp
        self.encoded = self.builder.build()

    def adopt(self, encoded: bytearray, token: Token) -> None:
        """Take an encoded batch, without a stamp yet; one token stands for all its records."""
        self.encoded = encoded
        header = parse_header(encoded)
        if header.has_producer_id:  # it was copied from a log
            self.stamp_again(_NOBODY)
            self.stamp = None
        self.timestamps.append(header.max_timestamp)
        self.tokens.append(token)

    def stamp_again(self, stamp: Stamp) -> None:
        """Write a (new) stamp into the encoded batch."""
        self.stamp = stamp
        header = parse_header(self.encoded)._replace(
            producer_id=stamp.producer_id, producer_epoch=stamp.producer_epoch, base_sequence=stamp.base_sequence
        )
        write_header(self.encoded, header)


class Appended(NamedTuple):
    """Effect of an append on its partition's batches."""

    opened: bool  # a new batch; its linger time begins
    completed: bool  # the batch before it is full and can be sent


class Accumulator(Generic[Token]):
    """Bounded by ``buffer_bytes`` over all partitions. ``sequences`` is None for a producer that is not idempotent."""

    def __init__(
        self,
        *,
        batch_bytes: int,
        linger_ms: int,
        buffer_bytes: int,
        compression: Compression = Compression.NONE,
        sequences: Sequences | None = None,
        is_transactional: bool = False,
    ) -> None:
        self._batch_bytes = batch_bytes
        self.linger_ms = linger_ms
        self._buffer_bytes = buffer_bytes
        self._compression = compression
        self._sequences = sequences
        self._is_transactional = is_transactional
        self._queues: dict[TopicPartition, deque[Batch[Token]]] = {}  # none of them empty
        self._in_flight: dict[TopicPartition, Batch[Token]] = {}
        self._count = 0
        self.buffered_bytes = 0
        self.latest_serial = 0  # batches are numbered in the order in which they were opened

    def __len__(self) -> int:
        """Number of batches, queued or in flight."""
        return self._count

    def has_room(self, size_bytes: int) -> bool:
        """True when a record of that size may be appended now. A lone record always fits."""
        return not self._count or self.buffered_bytes + size_bytes <= self._buffer_bytes

    def append(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        timestamp: int,
        headers: Sequence[Header],
        token: Token,
        now_ms: int,
    ) -> Appended:
        """Add a record (timestamp in wall-clock ms; ``now_ms`` is monotonic)."""
        queue = self._queues.get(tp)
        batch = queue[-1] if queue and queue[-1].is_open else None
        completed = batch is not None and not self._fits(batch, key, value, headers)
        opened = batch is None or completed
        if batch is None or completed:
            batch = self._begin(tp, now_ms)
        batch.append(key, value, timestamp, headers, token)
        self._count_bytes(batch)
        return Appended(opened, completed)

    def append_encoded(self, tp: TopicPartition, encoded: bytearray, token: Token, now_ms: int) -> None:
        """Add an encoded batch at the end of the queue; it gets its stamp when it is taken."""
        batch = self._begin(tp, now_ms)
        batch.adopt(encoded, token)
        self._count_bytes(batch)

    # -- sending ----------------------------------------------------------------------------------------------------

    def ready(
        self, now_ms: int, leader_epoch_of: Callable[[TopicPartition], int], *, flushing: bool = False
    ) -> Iterator[TopicPartition]:
        """Partitions whose first batch may be sent now: full, old enough, or any batch when flushing.

        A batch that failed waits for its back-off, or until its partition has a newer leader.
        """
        may_stamp = self._sequences is None or not self._sequences.needs_producer_id
        for tp, queue in self._queues.items():
            batch = queue[0]
            if tp not in self._in_flight and (may_stamp or batch.stamp is not None):
                if batch.is_open:
                    if flushing or len(queue) > 1 or self._is_old_or_full(batch, now_ms):
                        yield tp
                elif batch.not_before_ms <= now_ms or self._has_new_leader(batch, leader_epoch_of):
                    yield tp

    def awaits_leader(self, leader_epoch_of: Callable[[TopicPartition], int]) -> bool:
        """True when some batch failed because of its leader and no newer one is known."""
        return any(
            queue[0].failed_leader_epoch is not None and not self._has_new_leader(queue[0], leader_epoch_of)
            for queue in self._queues.values()
        )

    def next_due_ms(self, now_ms: int) -> int | None:
        """Time at which the next batch becomes ready by itself; None without one.

        ``now_ms``: the same as for :meth:`ready`. A batch due between two readings would be in neither answer.
        """
        times = (
            queue[0].created_ms + self.linger_ms if queue[0].is_open else queue[0].not_before_ms
            for tp, queue in self._queues.items()
            if tp not in self._in_flight
        )
        return min((time for time in times if time > now_ms), default=None)

    def oldest_ms(self) -> int | None:
        """Creation time of the oldest batch that has not expired."""
        return min((batch.created_ms for batch in self._first_ones()), default=None)

    def oldest_serial(self) -> int:
        """The lowest number of a batch that has not expired; one more than the latest without such a batch."""
        return min((batch.serial for batch in self._first_ones()), default=self.latest_serial + 1)

    def is_in_flight(self, tp: TopicPartition) -> bool:
        """True while a request with a batch of the partition is under way."""
        return tp in self._in_flight

    def size_of_first(self, tp: TopicPartition) -> int:
        """Bytes of the batch that :meth:`take` would return, before compression."""
        return self._queues[tp][0].size_bytes

    def topic_id_of_first(self, tp: TopicPartition) -> UUID:
        """The topic id of the first attempt to send it, zero before that."""
        return self._queues[tp][0].topic_id

    def take(self, tp: TopicPartition) -> Batch[Token]:
        """The partition's first batch, now in flight; it is stamped and encoded the first time."""
        assert tp not in self._in_flight, f"{tp} has a batch in flight"
        queue = self._queues[tp]
        batch = queue.popleft()
        if not queue:
            del self._queues[tp]
        self._in_flight[tp] = batch
        stamp = batch.stamp
        if stamp is None and self._sequences is not None:
            stamp = self._sequences.stamp(tp, batch.record_count)
        if batch.is_open:
            batch.close(stamp)
        elif stamp is not None and stamp != batch.stamp:
            batch.stamp_again(stamp)
        batch.attempts += 1
        return batch

    # -- results of a batch -----------------------------------------------------------------------------------------

    def delivered(self, batch: Batch[Token]) -> None:
        """It was written."""
        del self._in_flight[batch.tp]
        self._forget(batch)

    def retry(self, batch: Batch[Token], not_before_ms: int, failed_leader_epoch: int | None = None) -> None:
        """Back to the front of the queue, for a retry at ``not_before_ms``, or once there is a newer leader epoch."""
        del self._in_flight[batch.tp]
        batch.not_before_ms = not_before_ms
        batch.failed_leader_epoch = failed_leader_epoch
        self._queues.setdefault(batch.tp, deque()).appendleft(batch)

    def renumber(self, batch: Batch[Token]) -> None:
        """The broker expects other sequence numbers, and the batch was not written: it gets a new stamp when taken."""
        assert self._sequences is not None
        self._sequences.start_over(batch.tp)
        batch.stamp = None

    def give_up(self, batch: Batch[Token]) -> None:
        """The batch in flight will not be retried."""
        del self._in_flight[batch.tp]
        self._drop(batch)

    def expire(self, created_before_ms: int) -> list[Batch[Token]]:
        """Return the batches older than that, each once, and remove them from the queues.

        Those in flight stay until their requests end, so that no batch overtakes them.
        """
        expired = [
            batch for batch in self._in_flight.values() if batch.created_ms < created_before_ms and not batch.is_expired
        ]
        for batch in expired:
            batch.is_expired = True
        for tp, queue in list(self._queues.items()):
            while queue and queue[0].created_ms < created_before_ms:
                batch = queue.popleft()
                self._drop(batch)
                expired.append(batch)
            if not queue:
                del self._queues[tp]
        return expired

    def clear(self) -> list[Batch[Token]]:
        """Remove and return everything, in flight or not."""
        batches = [*self._in_flight.values(), *(batch for queue in self._queues.values() for batch in queue)]
        self._queues.clear()
        self._in_flight.clear()
        self._count = self.buffered_bytes = 0
        return batches

    # -- inside -----------------------------------------------------------------------------------------------------

    def _begin(self, tp: TopicPartition, now_ms: int) -> Batch[Token]:
        self.latest_serial += 1
        builder = BatchBuilder(compression=self._compression, is_transactional=self._is_transactional)
        batch: Batch[Token] = Batch(self.latest_serial, tp, now_ms, builder)
        self._queues.setdefault(tp, deque()).append(batch)
        self._count += 1
        return batch

    def _count_bytes(self, batch: Batch[Token]) -> None:
        grown = batch.size_bytes - batch.buffered_bytes
        batch.buffered_bytes += grown
        self.buffered_bytes += grown

    def _fits(self, batch: Batch[Token], key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> bool:
        return batch.size_bytes + upper_bound_size(key, value, headers) <= self._batch_bytes

    def _is_old_or_full(self, batch: Batch[Token], now_ms: int) -> bool:
        return now_ms - batch.created_ms >= self.linger_ms or batch.size_bytes >= self._batch_bytes

    @staticmethod
    def _has_new_leader(batch: Batch[Token], leader_epoch_of: Callable[[TopicPartition], int]) -> bool:
        return batch.failed_leader_epoch is not None and leader_epoch_of(batch.tp) > batch.failed_leader_epoch

    def _first_ones(self) -> Iterator[Batch[Token]]:
        """The oldest queued batch of each partition, and the one in flight unless it has expired."""
        yield from (queue[0] for queue in self._queues.values())
        yield from (batch for batch in self._in_flight.values() if not batch.is_expired)

    def _drop(self, batch: Batch[Token]) -> None:
        if batch.stamp is not None and self._sequences is not None:
            self._sequences.start_over(batch.tp)
        self._forget(batch)

    def _forget(self, batch: Batch[Token]) -> None:
        self._count -= 1
        self.buffered_bytes -= batch.buffered_bytes
