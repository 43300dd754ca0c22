"""How late the event loop's timers fire: that long every client waits."""

from __future__ import annotations

import asyncio
from typing import Final

from minikafka.metrics.histogram import Histogram

BEAT_S: Final = 0.25
BOUNDS_S: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


class LoopLag:
    """A timer that notes its own delay. Its beats cost some 0.05 % of a core."""

    def __init__(self) -> None:
        self.histogram = Histogram(BOUNDS_S)
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0

    def start(self) -> None:
        """From now on."""
        self._due_s = self._loop.time() + BEAT_S
        self._timer = self._loop.call_at(self._due_s, self._beat)

    def stop(self) -> None:
        """Stop."""
        if self._timer is not None:
            self._timer.cancel()

    def _beat(self) -> None:
        self.histogram.note(max(0.0, self._loop.time() - self._due_s))
        self.start()
