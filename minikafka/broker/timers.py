"""Drives the timing wheel from the event loop: one timer, set to the wheel's next non-empty bucket (row D3).

A node that stood still, because its process or its machine was stopped, finds much overdue: sessions of members whose
heartbeats wait to be read, in groups that another node coordinates by now. It hears what came meanwhile before anything
goes off. A former coordinator ended all sessions at once and gave a static member another id, and the next one fenced
it for good.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from minikafka.broker.clock import Clock
from minikafka.timing.purgatory import ALL, Purgatory
from minikafka.timing.wheel import NEVER_MS, TimerTask, TimingWheel

EXPIRED_AT_ONCE: Final = 100
"""In one turn of the loop, by weight. Thousands may be due at once: requests and members that came together end
together."""

STOOD_STILL_MS: Final = 1_000
"""A node whose timer is so late did not run."""
HEARING_MS: Final = 1_000
"""For what came meanwhile. A node hears from the controller within a third of that who leads now."""


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
        self._wheel = TimingWheel(clock.monotonic_ms(), on_earlier=self._arm)
        self._handle: asyncio.TimerHandle | None = None
        self._hears_until_ms = 0
        self._is_closed = False

    def purgatory(self, at_once: int = ALL, on_behind: Callable[[], None] | None = None) -> Purgatory[object]:
        """A new purgatory on this wheel."""
        return Purgatory(self._wheel, at_once, on_behind)

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
        deadline_ms = max(deadline_ms, self._hears_until_ms)
        if deadline_ms >= self._wheel.sleeps_until_ms:
            return
        if self._handle is not None:
            self._handle.cancel()
        if self._is_closed:
            return
        now_ms = self._clock.monotonic_ms()
        due_ms = self._wheel.sleeps_until_ms = max(deadline_ms, now_ms)
        self._handle = self._loop.call_later((due_ms - now_ms) / 1000, self._fire)

    def _fire(self) -> None:
        self._handle = None
        now_ms, due_ms = self._clock.monotonic_ms(), self._wheel.sleeps_until_ms
        self._wheel.sleeps_until_ms = NEVER_MS
        if now_ms - due_ms >= STOOD_STILL_MS and due_ms != self._hears_until_ms:
            self._hears_until_ms = now_ms + HEARING_MS
            self._arm(now_ms)
            return
        try:
            self._wheel.expire_due(now_ms, EXPIRED_AT_ONCE)
        finally:
            next_ms = self._wheel.next_deadline_ms()
            if next_ms is not None:
                self._arm(next_ms)
