"""The size of a micro-batch (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.offsets import Offsets


def available(begins: Offsets, ends: Offsets) -> int:
    """The number of offsets in between."""
    return sum(max(0, end.offset - begins[tp].offset) for tp, end in ends.items())


def capped(begins: Offsets, ends: Offsets, offsets_max: int | None) -> Offsets:
    """Ends of about ``offsets_max`` offsets in all, divided in proportion to the partitions' offsets.

    A share is rounded down, but is at least one for a partition with offsets. A partition without a share keeps its
    beginning, with the epoch. An end that moves forward keeps the epoch of the log's end: it is the epoch of its record
    or a later one of the same log, and finds the same truncations.
    """
    total = available(begins, ends)
    is_limited = offsets_max is not None and offsets_max < total
    chosen: dict[TopicPartition, OffsetAndEpoch] = {}
    for tp, end in ends.items():
        begin = begins[tp]
        size = end.offset - begin.offset
        if size <= 0:
            chosen[tp] = begin
        elif is_limited:
            assert offsets_max is not None
            share = max(1, offsets_max * size // total)
            chosen[tp] = OffsetAndEpoch(begin.offset + min(share, size), end.epoch)
        else:
            chosen[tp] = end
    return chosen


@dataclass(slots=True)
class Patience:
    """Delays a batch until there are ``offsets_min`` offsets, or ``delay_max_ms`` have passed since the last batch.

    The first batch does not wait: the time of the batch before is unknown.
    """

    offsets_min: int | None
    delay_max_ms: int
    _last_ms: int | None = None

    def is_worth_it(self, offsets: int, now_ms: int) -> bool:
        """True when a batch of so many offsets begins now. It counts as the last batch then."""
        if self.offsets_min is None:
            return True
        is_overdue = self._last_ms is None or now_ms - self._last_ms >= self.delay_max_ms
        if offsets >= self.offsets_min or is_overdue:
            self._last_ms = now_ms
            return True
        return False
