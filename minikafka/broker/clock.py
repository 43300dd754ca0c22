"""Time, handed in once at the composition root.

Elections, sessions and expiry use :meth:`Clock.monotonic_ms` only. Records are stamped by :meth:`Clock.stamp_ms`, and
how old they are is seen by :meth:`Clock.age_ms`: so no jump of the wall clock makes them look old
(docs/decisions/0009). The monotonic side is the event loop's own clock, so a loop with virtual time carries the whole
node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from minikafka.storage.retention import RetentionClock


class Clock:
    """Milliseconds, monotonic (from the running loop) and wall; and seconds within a turn of the loop."""

    __slots__ = ("_ages", "_loop_time", "_start_ms", "_wall_s", "work_s")

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
        self._ages = RetentionClock()
        self.age_ms()  # the clock is believed as it is now
        self._start_ms = self.wall_ms() - self.monotonic_ms()

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary start; never goes back."""
        return int(self._loop_time() * 1000)

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as the operating system believes."""
        return int(self._wall_s() * 1000)

    def age_ms(self) -> int:
        """The same, to see how old a stamp is: a jump ahead is made up for slowly."""
        return self._ages.read(self.wall_ms(), self.monotonic_ms())

    def stamp_ms(self) -> int:
        """The same, for a stamp whose age others will see: a jump back is not followed before the next start."""
        return max(self.wall_ms(), self._start_ms + self.monotonic_ms())
