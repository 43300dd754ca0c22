"""Memory that all connections of a listener may hold together, and who waits for some.

Each connection has ALLOWANCE_BYTES of its own, which nobody asks about: small requests and small answers always pass.
What a connection holds beyond (a receive buffer that grew, requests that wait, answers that are ready or unsent) it
reports here. States::

    roomy --reports add up to more than the limit--> tight --what is held falls to the limit--> roomy

- *tight*: a connection beyond its allowance is not read from. It waits in line until others let go. One of those who
  wait is *served* all the same, so that there is always one that completes its request and lets go.
- beyond ``hard_limit``: the connection that holds most has to go, at once.

No clock, no socket: the listener closes connections that hold memory, and make no progress, while it is tight, and
lets the next be served (:meth:`Budget.serve_next`).
"""

from __future__ import annotations

from typing import Final, Protocol

ALLOWANCE_BYTES: Final = 128 * 1024


class Holder(Protocol):
    """A connection, as the budget sees it."""

    def on_room(self) -> None:
        """Memory is free again, and it is this holder's turn to take some."""
        ...

    def give_up(self) -> None:
        """It holds most of what is too much: it must let go of everything now."""
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
        self._served: Holder | None = None  # goes on although it is tight

    @property
    def is_tight(self) -> bool:
        """More is held than there should be."""
        return self.held > self.limit

    @property
    def waiting(self) -> int:
        """How many connections wait for memory."""
        return len(self._waiting)

    def report(self, holder: Holder, excess: int) -> None:
        """``holder`` holds so many bytes beyond its allowance now."""
        self.held += excess - self._holders.get(holder, 0)
        if excess:
            self._holders[holder] = excess
        else:
            self._holders.pop(holder, None)
            if holder is self._served:
                self._served = None
        if self.held > self.hard_limit:
            max(self._holders, key=self._excess_of).give_up()
        if self._waiting and not self.is_tight:
            self._wake()

    def may_go_on(self, holder: Holder) -> bool:
        """May it take more? If not, it waits in line, and ``on_room`` is called when its turn comes."""
        if self.is_tight and holder in self._holders and holder is not self._served:
            self._waiting[holder] = None
            return False
        self._waiting.pop(holder, None)
        return True

    def serve_next(self) -> None:
        """Called now and then: somebody has to go on, for those who wait may hold everything."""
        if self._served is None and self._waiting:
            self._served = next(iter(self._waiting))
            del self._waiting[self._served]
            self._served.on_room()

    def forget(self, holder: Holder) -> None:
        """The connection is gone."""
        self._waiting.pop(holder, None)
        self.report(holder, 0)

    def by_size(self) -> list[Holder]:
        """Who holds memory beyond the allowance, most first."""
        return sorted(self._holders, key=self._excess_of, reverse=True)

    def _excess_of(self, holder: Holder) -> int:
        return self._holders[holder]

    def _wake(self) -> None:
        """Let so many of those who wait go on as there is room for."""
        room = self.limit - self.held
        while self._waiting and room >= 0:
            holder = next(iter(self._waiting))
            del self._waiting[holder]
            room -= ALLOWANCE_BYTES
            holder.on_room()
