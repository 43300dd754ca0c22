"""The offsets of a group: committed ones, and those that wait for the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from minikafka.groups.memory import METADATA_INCLUDED_BYTES, OFFSET_BYTES, Memory
from minikafka.groups.records import OffsetCommitValue
from minikafka.model import TopicPartition


@dataclass(slots=True)
class CommittedOffset:
    """A committed offset and, on the monotonic clock, when it was committed."""

    value: OffsetCommitValue
    committed_at_ms: int


def size_in_bytes(at: TopicPartition, value: OffsetCommitValue) -> int:
    """What an offset takes. A string has up to four bytes for a character."""
    characters = len(value.metadata) if value.metadata.isascii() else 4 * len(value.metadata)
    return OFFSET_BYTES + len(at.topic) + max(0, characters - METADATA_INCLUDED_BYTES)


class _Placed(NamedTuple):
    """A pending offset. Places grow in the order of the log."""

    place: int
    offset: CommittedOffset


@dataclass(slots=True)
class PendingOffsets:
    """Offsets of one group that open transactions have written, by partition and producer id.

    Row T41: the last record in the log is the committed offset, in whatever order transactions end. As in Apache Kafka,
    the places of the records are compared, and a partition knows up to which of them its pending offsets are
    *overtaken* by a newer one that is committed: their ends change nothing. No commit looks at all producers of a
    partition, of which a client may have as many as there is memory for: 20,000 made each take 10 ms.
    """

    _offsets: dict[int, dict[TopicPartition, _Placed]] = field(default_factory=dict)
    _producers: dict[TopicPartition, set[int]] = field(default_factory=dict)
    _overtaken: dict[TopicPartition, int] = field(default_factory=dict)
    """The places below this one, if there are any."""
    _next_place: int = 0
    held_bytes: int = 0

    def __bool__(self) -> bool:
        return bool(self._producers)

    def __contains__(self, partition: object) -> bool:
        return partition in self._producers

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """Those with an open transaction."""
        return self._producers.keys()

    @property
    def producers(self) -> Iterable[int]:
        """Those with an open transaction."""
        return self._offsets.keys()

    def partitions_of(self, producer_id: int) -> list[TopicPartition]:
        """Those in the producer's open transaction."""
        return list(self._offsets.get(producer_id, ()))

    def candidates(self, partition: TopicPartition) -> list[CommittedOffset]:
        """What may become the committed offset, in the order of the log."""
        found = sorted(self._offsets[producer_id][partition] for producer_id in self._producers.get(partition, ()))
        return [placed.offset for placed in found if self._is_valid(partition, placed)]

    def add(self, producer_id: int, partition: TopicPartition, offset: CommittedOffset) -> None:
        """A producer's open transaction has this offset; it replaces an earlier one of the same producer."""
        self._producers.setdefault(partition, set()).add(producer_id)
        offsets = self._offsets.setdefault(producer_id, {})
        if partition in offsets:
            self.held_bytes -= _size(partition, offsets[partition].offset)
        offsets[partition] = _Placed(self._next_place, offset)
        self._next_place += 1
        self.held_bytes += _size(partition, offset)

    def overtake(self, partition: TopicPartition) -> None:
        """A newer record than all of the partition is committed."""
        if partition in self._producers:
            self._overtaken[partition] = self._next_place

    def remove(self, partition: TopicPartition) -> list[int]:
        """A tombstone: nothing of the partition is pending any more. The producers that have nothing left here."""
        self._overtaken.pop(partition, None)
        gone = []
        for producer_id in self._producers.pop(partition, ()):
            offsets = self._offsets[producer_id]
            self.held_bytes -= _size(partition, offsets.pop(partition).offset)
            if not offsets:
                del self._offsets[producer_id]
                gone.append(producer_id)
        return gone

    def end(self, producer_id: int, *, commits: bool) -> dict[TopicPartition, CommittedOffset]:
        """The producer's transaction has ended; the offsets that are committed by that."""
        committed = {}
        for partition, placed in self._offsets.pop(producer_id, {}).items():
            self.held_bytes -= _size(partition, placed.offset)
            if commits and self._is_valid(partition, placed):
                self._overtaken[partition] = placed.place
                committed[partition] = placed.offset
            producers = self._producers[partition]
            producers.remove(producer_id)
            if not producers:
                del self._producers[partition]
                self._overtaken.pop(partition, None)
        return committed

    def _is_valid(self, partition: TopicPartition, placed: _Placed) -> bool:
        return placed.place >= self._overtaken.get(partition, 0)

    def check(self) -> None:
        """Assert that the tables have the same."""
        pairs = [(producer_id, at) for producer_id, offsets in self._offsets.items() for at in offsets]
        assert sorted(pairs) == sorted((each, at) for at, producers in self._producers.items() for each in producers)
        assert all(self._offsets.values())
        assert all(self._producers.values())
        assert self._overtaken.keys() <= self._producers.keys()
        pending = (pair for offsets in self._offsets.values() for pair in offsets.items())
        assert self.held_bytes == sum(_size(at, placed.offset) for at, placed in pending)


@dataclass(slots=True)
class Room:
    """Which offsets of a commit there is memory for.

    Who commits a partition again, outside of transactions and with no more metadata, is never refused: it would read
    twice. A quarter of the memory is for offsets that wait for the end of a transaction, beside those that they will
    replace, also where a new leader has loaded more than all of it.
    """

    memory: Memory
    committed: dict[TopicPartition, CommittedOffset]
    is_transactional: bool
    new_bytes: int
    """Of those that were let in, beside what they replace; at first, of the group."""
    waiting_bytes: int = 0

    def has_place_for(self, at: TopicPartition, value: OffsetCommitValue) -> bool:
        """Whether the offset is let in; it counts if it is."""
        before = self.committed.get(at)
        size = size_in_bytes(at, value)
        more = max(0, size - _size(at, before)) if before is not None else size
        waiting, reserve_bytes = size if self.is_transactional else 0, self.memory.limit_bytes // 4
        if more and not self.memory.has_room_for(
            self.new_bytes + more + self.waiting_bytes + waiting, kept_free_bytes=reserve_bytes
        ):
            return False
        is_reserved = self.memory.pending_bytes + self.waiting_bytes + waiting <= reserve_bytes
        if waiting and not is_reserved and not self.memory.has_room_for(self.new_bytes + self.waiting_bytes + waiting):
            return False
        self.new_bytes += more
        self.waiting_bytes += waiting
        return True


def _size(at: TopicPartition, offset: CommittedOffset) -> int:
    return size_in_bytes(at, offset.value)
