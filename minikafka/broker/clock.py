"""Time, handed in once at the composition root.

Elections, sessions and expiry use :meth:`Clock.monotonic_ms` only; :meth:`Clock.wall_ms` stamps records and decides
retention. The monotonic side is the event loop's own clock, so a loop with virtual time carries the whole node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class Clock:
    """Milliseconds, monotonic (from the running loop) and wall; and seconds within a turn of the loop."""

    __slots__ = ("_loop_time", "_wall_s", "work_s")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        wall_s: Callable[[], float] = time.time,
        work_s: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._loop_time = loop.time
        self._wall_s = wall_s
        self.work_s = work_s
        """Seconds since an arbitrary start, also within a turn of the loop: what work takes is measured by it."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""
        return int(self._loop_time() * 1000)

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as the operating system believes."""
        return int(self._wall_s() * 1000)
