"""Drives the timing wheel from the event loop: one timer, set to the wheel's next non-empty bucket (row D3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.timing.purgatory import Purgatory
from minikafka.timing.wheel import TimerTask, TimingWheel

EXPIRED_AT_ONCE: Final = 100
"""In one turn of the loop, by weight. Thousands may be due at once: requests and members that came together end
together."""


class _WatchedWheel(TimingWheel):
    """A wheel that tells its driver of an insertion, which may make the next deadline earlier."""

    __slots__ = ("_on_insert",)

    def __init__(self, start_ms: int, on_insert: Callable[[int], None]) -> None:
        super().__init__(start_ms)
        self._on_insert = on_insert

    def insert(self, task: TimerTask, deadline_ms: int) -> None:
        super().insert(task, deadline_ms)
        self._on_insert(deadline_ms)


class Alarm(TimerTask):
    """A timer with a callback."""

    __slots__ = ("_callback", "weight")

    def __init__(self, callback: Callable[[], None], weight: int = 1) -> None:
        """``weight``: of the EXPIRED_AT_ONCE of a turn."""
        super().__init__()
        self._callback = callback
        self.weight = weight

    def expire(self) -> None:
        self._callback()


class Timers:
    """The node's wheel: purgatories on it, and alarms. ``close`` stops it for good."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._wheel = _WatchedWheel(clock.monotonic_ms(), self._arm)
        self._handle: asyncio.TimerHandle | None = None
        self._armed_ms = 0
        self._is_closed = False

    def purgatory(self) -> Purgatory[object]:
        """A new purgatory on this wheel."""
        return Purgatory(self._wheel)

    def set(self, alarm: Alarm, deadline_ms: int) -> None:
        """Set ``alarm`` to ``deadline_ms`` (monotonic); replaces an earlier setting."""
        self._wheel.cancel(alarm)
        self._wheel.insert(alarm, deadline_ms)

    def cancel(self, alarm: Alarm) -> None:
        """Cancel an alarm."""
        self._wheel.cancel(alarm)

    def close(self) -> None:
        """Stop for good: no alarm fires after this."""
        self._is_closed = True
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, deadline_ms: int) -> None:
        if self._handle is not None:
            if deadline_ms >= self._armed_ms:
                return
            self._handle.cancel()
        if self._is_closed:
            return
        self._armed_ms = deadline_ms
        delay_s = max(0, deadline_ms - self._clock.monotonic_ms()) / 1000
        self._handle = self._loop.call_later(delay_s, self._fire)

    def _fire(self) -> None:
        self._handle = None
        try:
            self._wheel.expire_due(self._clock.monotonic_ms(), EXPIRED_AT_ONCE)
        finally:
            next_ms = self._wheel.next_deadline_ms()
            if next_ms is not None:
                self._arm(next_ms)
