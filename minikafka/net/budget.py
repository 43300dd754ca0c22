"""Memory that all connections of a listener may hold together, and the line of those that wait for it.

Each connection has an allowance of its own: small requests and small answers always pass. It is 128 KiB, or less when
there are so many connections that all allowances were more than the limit. A connection reports all memory beyond (a
grown receive buffer, waiting requests, ready or unsent answers) here. Buffers double, so a connection may need twice as
much next. A connection that wants to go on

- goes on while there is room for all that its frame takes (2 MiB at first, of a larger one), which then counts as if
  it held that: who has begun can complete;
- else it is *served*: one connection always goes on, so that one request always completes;
- else it waits in line until others free memory. Thousands that wait there hold no more than their allowances.

Room goes to the smallest frames (to the power of two), and of these to the first and the last in line by turns. So none
waits for what is much larger than its own, nor for thousands that came before it, and may complete nothing. Who is
served is chosen from all sizes by turns, the largest first: none waits for ever.

Beyond ``hard_limit`` the connection with the most memory is closed at once. No clock, no socket: the listener closes
connections that hold memory and make no progress while others wait.
"""

from __future__ import annotations

from typing import Final, Protocol

ALLOWANCE_BYTES: Final = 128 * 1024
ALLOWANCE_BYTES_MIN: Final = 8 * 1024
"""A receive buffer as it begins, and four requests that wait: whoever asks ordinary things reports nothing."""


class Holder(Protocol):
    """A connection, as seen by the budget."""

    def on_less_allowed(self) -> None:
        """The allowance is less than it was: report anew."""
        ...

    def on_room(self) -> None:
        """Memory is free again, and it is this holder's turn."""
        ...

    def give_up(self) -> None:
        """The limit is exceeded and this holder has the most: it must free all memory now."""
        ...


class Budget:
    """Bytes beyond the allowances: ``held`` of ``limit``. All allowances together are at most as much again."""

    def __init__(self, limit: int, largest_request: int) -> None:
        """``largest_request``: bytes that one connection may need at once."""
        self.limit = limit
        self.hard_limit = limit + max(limit, largest_request)
        self.held = 0
        self.allowance = ALLOWANCE_BYTES
        """Of each connection, in bytes."""
        self._members: set[Holder] = set()
        self._holders: dict[Holder, int] = {}
        self._granted: dict[Holder, int] = {}  # what it may hold, and counts
        self._waiting: dict[Holder, int] = {}  # the number of its line
        self._lines: list[dict[Holder, int]] = [{} for _ in range(64)]  # ordered sets, by what each wants
        self._served: Holder | None = None  # goes on although memory is tight
        self._rooms = 0  # how often room went to who waited
        self._services = 0  # how often such a one was served: counted apart, or a line might never have its turn
        self._is_halving = False  # who has begun by its allowance may complete

    @property
    def waiting_count(self) -> int:
        """How many connections wait."""
        return len(self._waiting)

    @property
    def is_tight(self) -> bool:
        """True when the limit is exceeded, or a connection waits."""
        return self.held > self.limit or bool(self._waiting)

    def join(self, holder: Holder) -> None:
        """A new connection. When the allowances become too many, all are halved."""
        members = self._members
        members.add(holder)
        if self.allowance > ALLOWANCE_BYTES_MIN and len(members) * self.allowance > self.limit:
            self.allowance //= 2
            self._is_halving = True
            for member in tuple(members):
                member.on_less_allowed()
            self._is_halving = False

    def report(self, holder: Holder, excess: int, wanted: int) -> None:
        """``holder`` holds so many bytes beyond its allowance now, and so many when it goes on; none: 0 or less."""
        before = self._size_of(holder)
        has_let_go = excess < self._holders.get(holder, 0) or wanted <= 0
        if has_let_go:
            self._granted.pop(holder, None)
            if holder is self._served:
                self._served = None
        if wanted > 0:
            self._holders[holder] = excess
        else:
            self._holders.pop(holder, None)
            if self._leave_line(holder):  # served later, it would have nothing to free: all others would wait for ever
                holder.on_room()
        self.held += self._size_of(holder) - before
        if self.held > self.hard_limit:
            max(self._holders, key=self._size_of).give_up()
        if has_let_go and self._waiting:
            self._wake()

    def may_go_on(self, holder: Holder, wanted: int, size: int) -> bool:
        """True when it may hold so much, of ``size`` that its whole frame takes. Otherwise it waits in line until the
        call of ``on_room``."""
        if holder not in self._holders:  # it just had to give up
            return True
        if holder is self._served or wanted <= self._granted.get(holder, 0):
            return True
        if holder not in self._waiting:
            if self._has_room(holder, wanted) or self._is_halving:
                self._grant(holder, wanted)
                return True
            if self._served is None:
                self._served = holder
                return True
        number = size.bit_length()
        if self._waiting.get(holder) != number:
            self._leave_line(holder)
        self._waiting[holder] = number
        self._lines[number][holder] = wanted
        return False

    def _has_room(self, holder: Holder, wanted: int) -> bool:
        return self.held - self._size_of(holder) + wanted <= self.limit

    def _grant(self, holder: Holder, wanted: int) -> None:
        before = self._size_of(holder)
        self._granted[holder] = wanted
        self.held += self._size_of(holder) - before

    def forget(self, holder: Holder) -> None:
        """The connection is gone. An allowance doubles when half of who had to share it are gone: all of them report
        whenever it is halved, and who comes and goes must not make them do so."""
        self._members.discard(holder)
        if self.allowance < ALLOWANCE_BYTES and 4 * len(self._members) * self.allowance <= self.limit:
            self.allowance *= 2
        self._leave_line(holder)
        self.report(holder, 0, 0)

    def by_size(self) -> list[Holder]:
        """Holders of memory beyond the allowance, most first, and who is served."""
        holders = [holder for holder in self._holders if self._size_of(holder) or holder is self._served]
        return sorted(holders, key=self._size_of, reverse=True)

    def check(self) -> None:
        """Assert the invariants."""
        assert self.held == sum(map(self._size_of, self._holders))
        assert self._granted.keys() | self._waiting.keys() <= self._holders.keys()
        assert self._served is None or self._served in self._holders.keys() - self._waiting.keys()
        assert self._served is not None or not self._waiting
        assert self._waiting == {holder: number for number, line in enumerate(self._lines) for holder in line}

    def _size_of(self, holder: Holder) -> int:
        """What counts of it."""
        return max(self._holders.get(holder, 0), self._granted.get(holder, 0))

    def _leave_line(self, holder: Holder) -> bool:
        """False: it did not wait."""
        number = self._waiting.pop(holder, None)
        if number is None:
            return False
        del self._lines[number][holder]
        return True

    def _wake(self) -> None:
        """Let waiting connections go on as long as there is room."""
        while self._waiting:
            lines = [line for line in self._lines if line]
            holder = _at_an_end(lines[0], self._rooms)
            if self._has_room(holder, lines[0][holder]):
                self._grant(holder, lines[0][holder])
                self._rooms += 1
            elif self._served is None:
                turn, number = divmod(self._services, len(lines))
                holder = self._served = _at_an_end(lines[-1 - number], turn)
                self._services += 1
            else:
                return
            self._leave_line(holder)
            holder.on_room()


def _at_an_end(line: dict[Holder, int], turn: int) -> Holder:
    """The first and the last by turns."""
    return next(reversed(line) if turn & 1 else iter(line))
