"""When the controller looks for leaderships to give back to preferred leaders (row C4).

Every ``leader.imbalance.check.interval.seconds``, and sooner when a broker came back: of a cluster that starts as a
whole the first brokers lead everything. As its replicas may need a while to be in sync again, pauses begin with
``FIRST_PAUSE_MS`` and double, up to the interval.
"""

from __future__ import annotations

from typing import Final

FIRST_PAUSE_MS: Final = 20_000
"""Brokers that start together are there by then, and in sync: one round moves all their leaderships."""


class BalanceTimer:
    """The time of the next look. Times are monotonic."""

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        self._interval_ms = self._pause_ms = interval_ms
        self.deadline_ms = now_ms + interval_ms

    def on_return(self, now_ms: int) -> None:
        """A broker is unfenced."""
        self._pause_ms = min(FIRST_PAUSE_MS, self._interval_ms)
        self.deadline_ms = min(self.deadline_ms, now_ms + self._pause_ms)

    def is_due(self, now_ms: int) -> bool:
        """True at the deadline; the next one is set then."""
        if now_ms < self.deadline_ms:
            return False
        self._pause_ms = min(self._pause_ms * 2, self._interval_ms)
        self.deadline_ms = now_ms + self._pause_ms
        return True
