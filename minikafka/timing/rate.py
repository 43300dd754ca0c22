"""A rate over a sliding window, by which quotas are kept (row R7, KIP-13, KIP-73)."""

from __future__ import annotations

from collections import deque


class WindowedRate:
    """Amounts per second over the last ``window_count`` windows, the present one included.

    The amounts in them are divided by the time since the oldest of them began (at least one window). Recording never
    fails: after a large amount the bound is exceeded, until the rate has fallen.
    """

    __slots__ = ("_samples", "_window_count", "_window_ms")

    def __init__(self, *, window_count: int = 11, window_ms: int = 1000) -> None:
        assert window_count > 0
        assert window_ms > 0
        self._window_count = window_count
        self._window_ms = window_ms
        self._samples: deque[tuple[int, float]] = deque()  # (began at, amount), oldest first

    def record(self, amount: float, now_ms: int) -> None:
        """So much, now."""
        self._purge(now_ms)
        if self._samples and now_ms - self._samples[-1][0] < self._window_ms:
            began_ms, before = self._samples.pop()
            self._samples.append((began_ms, before + amount))
        else:
            self._samples.append((now_ms, amount))

    def wait_ms(self, bound: float, now_ms: int) -> float:
        """Time until the rate is not above ``bound`` (per second) any more; 0 when it is not."""
        self._purge(now_ms)
        total, at_ms = sum([amount for _, amount in self._samples]), float(now_ms)
        for began_ms, amount in self._samples:
            if total * 1000 <= bound * max(at_ms - began_ms, self._window_ms):
                break
            fallen_ms = began_ms + total * 1000 / bound
            forgotten_ms = began_ms + self._window_count * self._window_ms
            if fallen_ms <= forgotten_ms:
                return fallen_ms - now_ms
            total, at_ms = total - amount, forgotten_ms
        return at_ms - now_ms

    def _purge(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._window_count * self._window_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._samples.popleft()
