"""Replication quota: a bound on bytes per second over a sliding window (row R7, KIP-73).

The rate is that of the last ``window_count`` windows, the present one included: the bytes recorded in them, divided by
the time since the oldest of them began (at least one window). Recording never fails: after a large answer the quota is
exceeded, and later answers wait until the rate has fallen.
"""

from __future__ import annotations

from collections import deque

UNLIMITED = (1 << 63) - 1


class ReplicationQuota:
    """One direction of one broker. ``is_limited``: there is a bound."""

    __slots__ = ("_rate", "_samples", "_window_count", "_window_ms", "is_limited")

    def __init__(self, *, window_count: int = 11, window_ms: int = 1000, rate: int = UNLIMITED) -> None:
        assert window_count > 0
        assert window_ms > 0
        self.rate = rate
        self._window_count = window_count
        self._window_ms = window_ms
        self._samples: deque[list[int]] = deque()  # [began at, bytes], oldest first

    @property
    def rate(self) -> int:
        """Bytes per second; may be changed at any time."""
        return self._rate

    @rate.setter
    def rate(self, rate: int) -> None:
        self._rate = rate
        self.is_limited = rate < UNLIMITED

    def record(self, size: int, now_ms: int) -> None:
        """``size`` bytes of throttled replicas were copied."""
        self._purge(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0])
        self._samples[-1][1] += size

    def is_exceeded(self, now_ms: int) -> bool:
        """The present rate is above the bound."""
        if not self.is_limited:
            return False
        self._purge(now_ms)
        if not self._samples:
            return False
        elapsed_ms = max(now_ms - self._samples[0][0], self._window_ms)
        return sum(size for _, size in self._samples) * 1000 > self.rate * elapsed_ms

    def _purge(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._window_count * self._window_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._samples.popleft()
