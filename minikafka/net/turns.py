"""The work of one turn of the event loop, and the line for the next turns.

A connection that pipelines large requests could occupy the loop for as long as it sends: the loop reads on while there
are bytes to read. So each request has a cost: its bytes, and more if its handler says so. When the cost of a turn is
spent, connections stand in line and go on, in order, one turn after another. Portions of long requests wait in a line
of their own: one connection may have a hundred of them, and others must not wait for all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

TURN_COST: Final = 2 * 1024 * 1024
"""About ten milliseconds: 1 MiB of records costs 2 to 5 ms, a small request some 15 us."""
HALF_TURN: Final = TURN_COST // 2
REQUEST_COST: Final = 2 * 1024
"""What any request costs beside its bytes."""


class Turns:
    """Shared by the connections of a listener. ``left`` is the remaining cost of this turn, or less."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.left = TURN_COST
        self._loop = loop
        self._line: deque[Callable[[], None]] = deque()
        self._portions: deque[asyncio.Future[None]] = deque()  # a connection may have a hundred of them
        self._is_portion_due = False
        self._is_next_scheduled = False

    def on_spent(self) -> None:
        """Some of this turn was used. The loop is asked for the next one, once per turn: its clock does not tell turns
        apart, as it goes on during a turn. But not before half of this one is spent, or the loop would come round again
        for each small request. So every event finds at least half of a turn."""
        if self.left < HALF_TURN:
            self._ask_for_next()

    def _ask_for_next(self) -> None:
        if not self._is_next_scheduled:
            self._is_next_scheduled = True
            self._loop.call_soon(self._next)

    def stand_in_line(self, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` in a turn with cost left."""
        self._line.append(go_on)
        self._ask_for_next()

    async def wait(self) -> None:
        """Wait for a whole turn, for one portion of a long request. Every other turn is for connections in line."""
        turn = self._loop.create_future()
        self._portions.append(turn)
        self._ask_for_next()
        await turn

    def _next(self) -> None:
        self._is_next_scheduled = False
        self.left = TURN_COST
        line = self._line
        if (self._is_portion_due or not line) and self._give_portion():
            self._is_portion_due = False
        else:
            self._is_portion_due = True
            try:
                for _ in range(len(line)):
                    line.popleft()()
                    if self.left <= 0:
                        break
            except BaseException:
                self._ask_for_next()  # a bug in what one asked, and the others stand in line still
                raise
        if self.left <= 0 or self._portions:
            self._ask_for_next()

    def _give_portion(self) -> bool:
        """Give the turn to the first one that waits for it; False: nobody does."""
        while self._portions:
            turn = self._portions.popleft()
            if not turn.done():  # its request may be cancelled
                self.left = 0
                turn.set_result(None)
                return True
        return False
