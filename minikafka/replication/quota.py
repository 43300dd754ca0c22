"""Replication quota: a bound on bytes per second over a sliding window (row R7, KIP-73)."""

from __future__ import annotations

from minikafka.timing.rate import WindowedRate

UNLIMITED = (1 << 63) - 1


class ReplicationQuota:
    """One direction of one broker. ``rate`` is in bytes per second and may be changed at any time."""

    __slots__ = ("_copied", "rate")

    def __init__(self, *, window_count: int = 11, window_ms: int = 1000, rate: int = UNLIMITED) -> None:
        self.rate = rate
        self._copied = WindowedRate(window_count=window_count, window_ms=window_ms)

    @property
    def is_limited(self) -> bool:
        """False while there is no bound."""
        return self.rate < UNLIMITED

    def record(self, size: int, now_ms: int) -> None:
        """``size`` bytes of throttled replicas were copied."""
        self._copied.record(size, now_ms)

    def is_exceeded(self, now_ms: int) -> bool:
        """The present rate is above the bound."""
        return self.is_limited and self._copied.wait_ms(self.rate, now_ms) > 0
