"""The share of file descriptors for sendfile: duplicates of consumers' sockets.

An outbox keeps its duplicate after sendfile for the next time. When the share is used up and another outbox needs one,
the outbox that was idle for longest closes its own. So the share bounds all duplicates, busy and idle.
"""

from __future__ import annotations

from typing import Protocol


class User(Protocol):
    """An outbox, as seen by the share."""

    def give_back(self) -> None:
        """Close the duplicate, and :meth:`Duplicates.forget` it."""
        ...


class Duplicates:
    """At most ``limit`` duplicates are open at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._busy: dict[User, None] = {}  # ordered sets
        self._resting: dict[User, None] = {}  # longest idle first

    @property
    def in_use(self) -> int:
        """Number of open duplicates."""
        return len(self._busy) + len(self._resting)

    def use(self, user: User) -> bool:
        """``user`` sends with its duplicate, or opens one now; False when all are busy."""
        if user in self._resting:
            del self._resting[user]
        elif user not in self._busy and self.in_use >= self.limit:
            if not self._resting:
                return False
            next(iter(self._resting)).give_back()
        self._busy[user] = None
        return True

    def rest(self, user: User) -> None:
        """``user`` has sent all. Its duplicate stays open until another user needs the place."""
        self._busy.pop(user, None)
        self._resting[user] = None

    def forget(self, user: User) -> None:
        """The duplicate is closed."""
        self._busy.pop(user, None)
        self._resting.pop(user, None)
