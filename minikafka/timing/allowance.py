"""A bound per second that holds in the long run, whoever waits, and however much is spent at once (KIP-13)."""

from __future__ import annotations

from typing import Final

LONGEST_MS: Final = 3_600_000


class Allowance:
    """Spending is never refused, and leads into debt, which goes down at the bound: whoever spent waits until it is
    gone. Nobody's debt is forgotten while others wait. ``saved_ms``: so much of an idle time may be made up for."""

    __slots__ = ("_paid_ms", "_saved_ms")

    def __init__(self, saved_ms: int) -> None:
        self._saved_ms = saved_ms
        self._paid_ms: float | None = None  # when all is paid; None before the first time

    def spend(self, amount: float, bound: float, now_ms: int) -> float:
        """Spend so much of ``bound`` (per second); the time (ms) until it is paid, an hour at most."""
        earliest_ms = now_ms - self._saved_ms
        before_ms = earliest_ms if self._paid_ms is None else max(self._paid_ms, earliest_ms)
        self._paid_ms = min(before_ms + amount * 1000 / bound, now_ms + LONGEST_MS)
        return max(0.0, self._paid_ms - now_ms)
