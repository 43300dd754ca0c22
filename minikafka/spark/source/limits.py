"""How far a micro-batch goes (pure)."""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.spark.source.offsets import Offsets


def available(begins: Offsets, ends: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(0, end.offset - begins[tp].offset) for tp, end in ends.items())


def capped(begins: Offsets, ends: Offsets, offsets_max: int | None) -> Offsets:
    """Ends with about ``offsets_max`` offsets before them, each partition's share in proportion to what it holds.

    A share is rounded down, but a partition that holds something gets at least one: it may be little, never nothing.
    A partition that gets nothing keeps its beginning, epoch included. An end that is brought forward keeps the epoch
    of the end: it is that of its record or a later one of the same log, which finds the same truncations.
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
    """Holds a batch back until ``offsets_min`` offsets are there, or ``delay_max_ms`` have passed since the last one.

    The first batch does not wait: nobody knows how long ago the one before was.
    """

    offsets_min: int | None
    delay_max_ms: int
    _last_ms: int | None = None

    def is_worth_it(self, offsets: int, now_ms: int) -> bool:
        """True when a batch of so many offsets is to begin now, which is then the last one."""
        if self.offsets_min is None:
            return True
        is_overdue = self._last_ms is None or now_ms - self._last_ms >= self.delay_max_ms
        if offsets >= self.offsets_min or is_overdue:
            self._last_ms = now_ms
            return True
        return False
