"""Counts of values by bucket."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate


class Histogram:
    """How many values were at most each bound, and their sum. In the unit of the bounds."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """``bounds``: upper ends of the buckets, ascending; beyond the last there is one more bucket."""
        assert list(bounds) == sorted(set(bounds)), f"{bounds} do not ascend"
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def note(self, value: float, times: int = 1) -> None:
        """One more value, or several like it."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Values so far."""
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """``(le, values up to it)`` as Prometheus has them, the last with ``+Inf``."""
        return zip((*(f"{bound:g}" for bound in self.bounds), "+Inf"), accumulate(self.counts), strict=True)
