"""Places for requests that wait: so many of one API are at work at once, and none keeps the others out. And memory for
those that are long.

A connection has fewer places than there are. Who is beyond them waits for its own requests; for the places of all,
connections wait in turns: one with a hundred requests gets one place, then the next connection gets one. Half of the
places are for connections that have none: a request may be at work for minutes, and a few connections would have all.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class _Line:
    """The requests of one connection."""

    __slots__ = ("own", "requests", "taken")

    def __init__(self, at_once: int) -> None:
        self.own = asyncio.Semaphore(at_once)
        self.requests = 0
        self.taken = 0  # places


class Places:
    """Of one API."""

    def __init__(self, at_once: int, of_one: int) -> None:
        """``at_once`` places, and ``of_one`` for each connection. One that may have all leaves none to others."""
        self._left = at_once
        self._for_first = at_once // 2 if of_one < at_once else 0
        self._of_one = of_one
        self._lines: dict[Hashable, _Line] = {}
        self._waiting: dict[_Line, deque[asyncio.Future[None]]] = {}  # whose turn is next comes first

    @asynccontextmanager
    async def one(self, connection: Hashable) -> AsyncIterator[None]:
        """A place for a request of this connection; it waits until there is one."""
        line = self._lines.get(connection)
        if line is None:
            line = self._lines[connection] = _Line(self._of_one)
        line.requests += 1
        try:
            async with line.own:
                await self._take(line)
                try:
                    yield
                finally:
                    self._give(line)
        finally:
            line.requests -= 1
            if not line.requests:
                del self._lines[connection]

    async def _take(self, line: _Line) -> None:
        if self._has_one_for(line):
            self._left -= 1
            line.taken += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(line, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._drop(line, turn)
            else:  # it had just got its place
                self._give(line)
            raise

    def _has_one_for(self, line: _Line) -> bool:
        return self._left > (self._for_first if line.taken else 0)

    def _drop(self, line: _Line, turn: asyncio.Future[None]) -> None:
        turns = self._waiting.get(line, deque())
        if turn in turns:
            turns.remove(turn)
            if not turns:
                del self._waiting[line]

    def _give(self, line: _Line) -> None:
        """A place is free: it is the next connection's that may have it."""
        line.taken -= 1
        self._left += 1
        while (following := next(filter(self._has_one_for, self._waiting), None)) is not None:
            turns = self._waiting.pop(following)
            turn = turns.popleft()
            if turns:
                self._waiting[following] = turns
            if not turn.done():  # its request may be cancelled
                self._left -= 1
                following.taken += 1
                turn.set_result(None)
                return


class Memory:
    """For decoded requests: each takes its share, first come, first served; one that is too large takes all of it."""

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @asynccontextmanager
    async def share(self, size: int) -> AsyncIterator[Share]:
        """So many bytes; it waits until they are free."""
        share = Share(self, min(size, self._size))
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((share.size, turn))
        self._hand_out()
        try:
            await turn
            yield share
        finally:
            if turn.cancelled():
                self._waiting.remove((share.size, turn))
                self._hand_out()
            else:
                share.memory.give_back(share.size)

    def take_now(self, size: int) -> bool:
        """So many bytes, unless that takes waiting."""
        if self._waiting or size > self._left:
            return False
        self._left -= size
        return True

    def give_back(self, size: int) -> None:
        """So many bytes that were taken."""
        self._left += size
        self._hand_out()

    def _hand_out(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if size > self._left or turn.done():  # it was cancelled, and is about to leave the line
                return
            self._waiting.popleft()
            self._left -= size
            turn.set_result(None)


class Share:
    """Of a memory, for one request."""

    __slots__ = ("memory", "size")

    def __init__(self, memory: Memory, size: int) -> None:
        self.memory = memory
        self.size = size

    def move_to(self, other: Memory) -> bool:
        """Be as much of another memory, if that has so much now. False: it stays where it is."""
        if other is not self.memory:
            if not other.take_now(self.size):
                return False
            self.memory.give_back(self.size)
            self.memory = other
        return True
