"""How much one turn of the event loop handles, and who goes on in the next.

A connection that pipelines large requests would keep the loop from everybody else for as long as it sends: the loop
reads on while there is something to read. So requests cost: their bytes, and more where a handler says so. When what
a turn may cost is spent, connections stand in line and go on, in that order, one turn after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

TURN_COST: Final = 2 * 1024 * 1024
"""About ten milliseconds: 1 MiB of records costs 2 to 5 ms, a small request some 15 us."""
REQUEST_COST: Final = 2 * 1024
"""What any request costs beside its bytes."""


class Turns:
    """Shared by the connections of a listener. ``left`` is what may still be spent in this turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.left = TURN_COST
        self._loop = loop
        self._at_s = 0.0
        self._line: deque[Callable[[], None]] = deque()

    def begin(self, now_s: float) -> None:
        """The loop's clock, which stands still during a turn, says so: this may be a new one."""
        if now_s != self._at_s:
            self._at_s = now_s
            if not self._line:
                self.left = TURN_COST

    def stand_in_line(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in a turn that has something left."""
        self._line.append(go_on)
        if len(self._line) == 1:
            self._loop.call_soon(self._next)

    async def wait(self) -> None:
        """Stand in line for a whole turn: for a portion of a request that needs several."""
        turn = self._loop.create_future()
        self.stand_in_line(partial(self._give, turn))
        await turn

    def _give(self, turn: asyncio.Future[None]) -> None:
        if not turn.done():  # its request may be cancelled
            self.left -= TURN_COST
            turn.set_result(None)

    def _next(self) -> None:
        self.left = TURN_COST
        line = self._line
        for _ in range(len(line)):
            line.popleft()()
            if self.left <= 0:
                break
        if line:
            self._loop.call_soon(self._next)
