"""Ranges of offsets, one for each task (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.offsets import Offsets


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets of a partition from ``start`` to before ``end``: the input of a task."""

    tp: TopicPartition
    start: OffsetAndEpoch
    end: OffsetAndEpoch
    topic_id: str = ""  # of the topic with these offsets; empty when unknown

    @property
    def size(self) -> int:
        """Number of offsets; there may be fewer records."""
        return self.end.offset - self.start.offset

    def split(self, parts: int) -> Iterator[OffsetRange]:
        """As many ranges, of sizes that differ by one at most; fewer when there are fewer offsets.

        An inner bound has the epoch of the range's end: see :func:`~minikafka.spark.source.limits.capped`.
        """
        parts = max(1, min(parts, self.size))
        bounds = [self.start.offset + self.size * part // parts for part in range(parts + 1)]
        inner = [self.start, *(OffsetAndEpoch(offset, self.end.epoch) for offset in bounds[1:-1]), self.end]
        for start, end in pairwise(inner):
            yield replace(self, start=start, end=end)


def ranges_between(begins: Offsets, ends: Offsets, topic_ids: Mapping[str, str]) -> list[OffsetRange]:
    """A range for each partition with offsets to read, in order."""
    ranges = [OffsetRange(tp, begins[tp], end, topic_ids.get(tp.topic, "")) for tp, end in sorted(ends.items())]
    return [range_ for range_ in ranges if range_.size > 0]


def split_ranges(
    ranges: Iterable[OffsetRange], *, ranges_min: int | None = None, offsets_max: int | None = None
) -> list[OffsetRange]:
    """Ranges of at most ``offsets_max`` offsets, and about ``ranges_min`` of them if there are fewer (Spark's rule).

    In the second case, ranges below their share stay whole, and larger ones are split in proportion.
    """
    whole = list(ranges)
    if offsets_max is not None:
        whole = [part for range_ in whole for part in range_.split(-(-range_.size // offsets_max))]
    if ranges_min is None or len(whole) >= ranges_min:
        return whole
    share = sum(range_.size for range_ in whole) / ranges_min
    large = [range_ for range_ in whole if range_.size > share]
    wanted, total = ranges_min - (len(whole) - len(large)), sum(range_.size for range_ in large)
    return [
        part
        for range_ in whole
        for part in range_.split(round(range_.size / total * wanted) if range_.size > share else 1)
    ]
