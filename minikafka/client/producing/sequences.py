"""Stamps of an idempotent producer's batches: producer id, epoch and sequence number (KIP-98, KIP-360; pure).

A batch gets its stamp at its first attempt. A retry has the same stamp, so the broker detects a duplicate instead of
writing it twice. One batch per partition is in flight. When a batch is given up, the partition goes on in a higher
*epoch* from sequence 0: every broker accepts that, and refuses a late copy of the lost batch. Epochs are compared per
partition, so partitions may have different ones.

This holds for every reason to give up, as in Java's producer (KIP-360). Sequence numbers are never reused for another
batch: a failed batch may have been written all the same (UNKNOWN_SERVER_ERROR). The next batch with its numbers would
count as a duplicate, and be acknowledged without being written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from minikafka.model import NO_PRODUCER_ID, TopicPartition

SEQUENCE_MASK: Final = 0x7FFFFFFF  # 2^31-1 is followed by 0
MAX_EPOCH: Final = 0x7FFF


class Stamp(NamedTuple):
    """Producer id, epoch and sequence number of a batch."""

    producer_id: int
    producer_epoch: int
    base_sequence: int


@dataclass(slots=True)
class _Line:
    producer_id: int
    epoch: int
    next_sequence: int = 0


class Sequences:
    """Stamps for all partitions of one producer. There is no producer id before :meth:`begin`."""

    def __init__(self, *, keeps_epoch: bool = False) -> None:
        """``keeps_epoch``: a transactional producer's epochs are its coordinator's; what it gives up is aborted."""
        self._keeps_epoch = keeps_epoch
        self._producer_id = NO_PRODUCER_ID
        self._epoch = 0
        self._lines: dict[TopicPartition, _Line] = {}

    @property
    def needs_producer_id(self) -> bool:
        """True while a producer id is needed for the next stamp."""
        return self._producer_id == NO_PRODUCER_ID

    def begin(self, producer_id: int, epoch: int) -> None:
        """The cluster's producer id. Partitions with stamps already keep theirs."""
        assert producer_id != NO_PRODUCER_ID
        self._producer_id, self._epoch = producer_id, epoch

    def restart(self, producer_id: int, epoch: int) -> None:
        """A transactional producer has this id and epoch now: all partitions begin at sequence 0."""
        self._lines.clear()
        self.begin(producer_id, epoch)

    def stamp(self, tp: TopicPartition, record_count: int) -> Stamp:
        """Stamp for the partition's next batch."""
        assert not self.needs_producer_id
        line = self._lines.get(tp)
        if line is None:
            line = self._lines[tp] = _Line(self._producer_id, self._epoch)
        stamp = Stamp(line.producer_id, line.epoch, line.next_sequence)
        line.next_sequence = (line.next_sequence + record_count) & SEQUENCE_MASK
        return stamp

    def start_over(self, tp: TopicPartition) -> None:
        """The last batch was given up, or the broker lost the producer's state: go on in a new epoch."""
        line = self._lines.get(tp)
        if self._keeps_epoch or line is None:
            return
        if line.epoch < MAX_EPOCH:
            line.epoch, line.next_sequence = line.epoch + 1, 0
            return
        del self._lines[tp]
        if line.producer_id == self._producer_id:
            self._producer_id = NO_PRODUCER_ID
