"""The numbers by which a broker recognises an idempotent producer's batches (KIP-98, KIP-360; pure).

A batch is stamped once, when it is first sent, with the producer's id and epoch and the sequence of its first record;
a retry carries the same stamp, so a broker that has it already says so instead of writing it twice. Only one batch of
a partition is under way at a time. When one is given up, the partition goes on in a higher *epoch* from sequence 0,
which every broker accepts, and which turns away a late copy of the lost batch. Epochs are compared per partition, so
partitions need not agree.

That is so whatever it was given up for, as in Java's producer (KIP-360). Numbers are never handed on to another batch:
an error may be told of a batch that was written all the same (UNKNOWN_SERVER_ERROR), and the next one under its numbers
would pass for its duplicate, acknowledged and nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from minikafka.model import NO_PRODUCER_ID, TopicPartition

SEQUENCE_MASK: Final = 0x7FFFFFFF  # 2^31-1 is followed by 0
MAX_EPOCH: Final = 0x7FFF


class Stamp(NamedTuple):
    """What a batch is known by."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(slots=True)
class _Line:
    producer_id: int
    epoch: int
    next_sequence: int = 0


class Sequences:
    """Numbers for every partition of one producer. Until :meth:`begin` there is no id to number with."""

    def __init__(self) -> None:
        self._producer_id = NO_PRODUCER_ID
        self._epoch = 0
        self._lines: dict[TopicPartition, _Line] = {}

    @property
    def needs_producer_id(self) -> bool:
        """True while a cluster has to be asked for an id before anything new is stamped."""
        return self._producer_id == NO_PRODUCER_ID

    def begin(self, producer_id: int, epoch: int) -> None:
        """The cluster gave this id. Partitions that have numbers already keep them."""
        assert producer_id != NO_PRODUCER_ID
        self._producer_id, self._epoch = producer_id, epoch

    def stamp(self, tp: TopicPartition, record_count: int) -> Stamp:
        """Numbers for the partition's next batch."""
        assert not self.needs_producer_id
        line = self._lines.get(tp)
        if line is None:
            line = self._lines[tp] = _Line(self._producer_id, self._epoch)
        stamp = Stamp(line.producer_id, line.epoch, line.next_sequence)
        line.next_sequence = (line.next_sequence + record_count) & SEQUENCE_MASK
        return stamp

    def start_over(self, tp: TopicPartition) -> None:
        """The last batch stamped was given up, or the broker lost count: go on in a new epoch."""
        line = self._lines[tp]
        if line.epoch < MAX_EPOCH:
            line.epoch, line.next_sequence = line.epoch + 1, 0
            return
        del self._lines[tp]
        if line.producer_id == self._producer_id:
            self._producer_id = NO_PRODUCER_ID
