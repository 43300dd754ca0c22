"""Memory that all connections of a listener may hold together, and the line of those that wait for it.

Each connection has ALLOWANCE_BYTES of its own: small requests and small answers always pass. It reports all memory
beyond (a grown receive buffer, waiting requests, ready or unsent answers) here. Buffers double, so a connection may
need twice as much next. A connection that wants to go on

- goes on while there is room for twice what it holds;
- else it is *served*: one connection always goes on, so that one request always completes;
- else it waits in line, first come, first served, until others free memory.

Beyond ``hard_limit`` the connection with the most memory is closed at once. No clock, no socket: the listener closes
connections that hold memory and make no progress while others wait.
"""

from __future__ import annotations

from typing import Final, Protocol

ALLOWANCE_BYTES: Final = 128 * 1024


class Holder(Protocol):
    """A connection, as seen by the budget."""

    def on_room(self) -> None:
        """Memory is free again, and it is this holder's turn."""
        ...

    def give_up(self) -> None:
        """The limit is exceeded and this holder has the most: it must free all memory now."""
        ...


class Budget:
    """Bytes beyond the allowances: ``held`` of ``limit``."""

    def __init__(self, limit: int, largest_request: int) -> None:
        """``largest_request``: bytes that one connection may need at once."""
        self.limit = limit
        self.hard_limit = limit + max(limit, largest_request)
        self.held = 0
        self._holders: dict[Holder, int] = {}
        self._waiting: dict[Holder, None] = {}  # an ordered set: first come, first served
        self._served: Holder | None = None  # goes on although memory is tight

    @property
    def is_tight(self) -> bool:
        """True when the limit is exceeded, or a connection waits."""
        return self.held > self.limit or bool(self._waiting)

    def report(self, holder: Holder, excess: int) -> None:
        """``holder`` holds so many bytes beyond its allowance now."""
        before = self._holders.get(holder, 0)
        self.held += excess - before
        if excess:
            self._holders[holder] = excess
        else:
            self._holders.pop(holder, None)
            if holder in self._waiting:  # served later, it would have nothing to free: all others would wait for ever
                del self._waiting[holder]
                holder.on_room()
        if excess < before and holder is self._served:
            self._served = None
        if self.held > self.hard_limit:
            max(self._holders, key=self._excess_of).give_up()
        if excess < before and self._waiting:
            self._wake()

    def may_go_on(self, holder: Holder) -> bool:
        """True when it may take more. Otherwise it waits in line until the call of ``on_room``."""
        excess = self._holders.get(holder, 0)
        if excess and holder is not self._served and self.held + excess > self.limit:
            if self._served is not None:
                self._waiting[holder] = None
                return False
            self._served = holder
        self._waiting.pop(holder, None)
        return True

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self._waiting.pop(holder, None)
        self.report(holder, 0)

    def by_size(self) -> list[Holder]:
        """Holders of memory beyond the allowance, most first."""
        return sorted(self._holders, key=self._excess_of, reverse=True)

    def _excess_of(self, holder: Holder) -> int:
        return self._holders[holder]

    def _wake(self) -> None:
        """Let waiting connections go on, in order, as long as there is room."""
        room = self.limit - self.held
        while self._waiting:
            holder = next(iter(self._waiting))
            excess = self._holders.get(holder, 0)
            if self._served is None:
                self._served = holder
            elif excess > room:
                return
            room -= max(excess, ALLOWANCE_BYTES)
            del self._waiting[holder]
            holder.on_room()
