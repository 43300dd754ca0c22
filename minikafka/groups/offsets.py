"""The offsets of a group: committed ones, and those that wait for the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minikafka.groups.records import OffsetCommitValue
from minikafka.model import TopicPartition


@dataclass(slots=True)
class CommittedOffset:
    """A committed offset and, on the monotonic clock, when it was committed."""

    value: OffsetCommitValue
    committed_at_ms: int


@dataclass(slots=True)
class PendingOffsets:
    """Offsets of one group that open transactions have written, by partition and producer id.

    Row T41: the last record in the log is the committed offset, in whatever order transactions end. Apache Kafka
    compares the records' places in the log, since compaction may leave no other. Here a partition keeps its producers
    in the order of their records, and one that was *overtaken* by a newer record keeps its place, but not its offset:
    its end changes nothing.
    """

    _offsets: dict[int, dict[TopicPartition, CommittedOffset | None]] = field(default_factory=dict)
    _producers: dict[TopicPartition, dict[int, None]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._producers)

    def __contains__(self, partition: object) -> bool:
        return partition in self._producers

    @property
    def partitions(self) -> Iterable[TopicPartition]:
        """Those with an open transaction."""
        return self._producers.keys()

    def partitions_of(self, producer_id: int) -> list[TopicPartition]:
        """Those in the producer's open transaction."""
        return list(self._offsets.get(producer_id, ()))

    def candidates(self, partition: TopicPartition) -> list[CommittedOffset]:
        """What may become the committed offset, in the order of the log."""
        found = (self._offsets[producer_id][partition] for producer_id in self._producers.get(partition, ()))
        return [offset for offset in found if offset is not None]

    def add(self, producer_id: int, partition: TopicPartition, offset: CommittedOffset) -> None:
        """A producer's open transaction has this offset; it replaces an earlier one of the same producer."""
        producers = self._producers.setdefault(partition, {})
        producers.pop(producer_id, None)
        producers[producer_id] = None
        self._offsets.setdefault(producer_id, {})[partition] = offset

    def overtake(self, partition: TopicPartition, before: int | None = None) -> None:
        """A newer record than all of the partition, or all before that of producer `before`, is committed."""
        for producer_id in self._producers.get(partition, ()):
            if producer_id == before:
                return
            self._offsets[producer_id][partition] = None

    def remove(self, partition: TopicPartition) -> None:
        """A tombstone: nothing of the partition is pending any more."""
        for producer_id in self._producers.pop(partition, ()):
            self._forget(producer_id, partition)

    def end(self, producer_id: int, *, commits: bool) -> dict[TopicPartition, CommittedOffset]:
        """The producer's transaction has ended; the offsets that are committed by that."""
        committed = {}
        for partition, offset in self._offsets.pop(producer_id, {}).items():
            if commits and offset is not None:
                self.overtake(partition, producer_id)
                committed[partition] = offset
            producers = self._producers[partition]
            del producers[producer_id]
            if not producers:
                del self._producers[partition]
        return committed

    def _forget(self, producer_id: int, partition: TopicPartition) -> None:
        offsets = self._offsets[producer_id]
        del offsets[partition]
        if not offsets:
            del self._offsets[producer_id]

    def check(self) -> None:
        """Assert that both tables have the same."""
        pairs = [(producer_id, at) for producer_id, offsets in self._offsets.items() for at in offsets]
        assert sorted(pairs) == sorted((each, at) for at, producers in self._producers.items() for each in producers)
        assert all(self._offsets.values())
        assert all(self._producers.values())
