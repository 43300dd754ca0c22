"""The share of file descriptors that sendfile may use: duplicates of the sockets of consumers.

An outbox that sent by sendfile keeps its duplicate for the next time, and it loses it when another needs one and the
share is used up: whoever was at rest for longest gives its own back. So the share bounds them, busy and at rest.
"""

from __future__ import annotations

from typing import Protocol


class User(Protocol):
    """An outbox, as the share sees it."""

    def give_back(self) -> None:
        """Close the duplicate, and :meth:`Duplicates.forget` it."""
        ...


class Duplicates:
    """At most ``limit`` duplicates are open at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._busy: dict[User, None] = {}  # ordered sets
        self._resting: dict[User, None] = {}  # longest at rest first

    @property
    def in_use(self) -> int:
        """How many are open."""
        return len(self._busy) + len(self._resting)

    def use(self, user: User) -> bool:
        """``user`` sends with its duplicate, or opens one now; False when none is to be had."""
        if user in self._resting:
            del self._resting[user]
        elif user not in self._busy and self.in_use >= self.limit:
            if not self._resting:
                return False
            next(iter(self._resting)).give_back()
        self._busy[user] = None
        return True

    def rest(self, user: User) -> None:
        """Everything is sent; the duplicate stays open until another needs its place."""
        self._busy.pop(user, None)
        self._resting[user] = None

    def forget(self, user: User) -> None:
        """The duplicate is closed."""
        self._busy.pop(user, None)
        self._resting.pop(user, None)
