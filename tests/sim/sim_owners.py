"""Who has which partition of a consumer group, and which offsets it commits, as its members see it.

Two members may use one partition for a while: one of them was removed, and has not heard of it yet. But then nothing
that it asks for may be granted any more:

- no heartbeat of a member is good that it sent after another member was given one of its partitions;
- no commit either, for that partition;
- whoever is given a partition finds the last offset that was committed, or one of which nobody knows; and what others
  wanted to commit, before that, comes to nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple
from uuid import UUID

from sim_invariants import InvariantViolatedError

At = tuple[UUID, int]
"""A partition, by topic id."""


class _Taking(NamedTuple):
    """A member was given a partition, at its request of the time ``asked``."""

    member: str
    time: float
    asked: float


class Owners:
    """Of one group. Members are called by their ids, which are never used again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._users: dict[At, dict[str, None]] = {}
        self._taken: dict[At, _Taking] = {}  # last
        self._committed: dict[At, int | None] = {}
        self._in_doubt: dict[At, dict[str, Counter[int]]] = {}  # by member: how often it asked for an offset
        self.given = self.commits = 0

    @property
    def now(self) -> float:
        """The time."""
        return self._clock()

    def users(self, at: At) -> list[str]:
        """Who takes the partition for its own."""
        return list(self._users.get(at, ()))

    def has_users(self) -> set[At]:
        """The partitions that some member takes for its own."""
        return {at for at, users in self._users.items() if users}

    # what members do

    def take(self, member: str, partitions: Iterable[At], asked: float) -> None:
        """A member was given these.

        One that stood still hears so late: another may have been given them since, and may ask for more. That one is
        the last then, since it asked last.
        """
        for at in partitions:
            self.given += 1
            self._users.setdefault(at, {})[member] = None
            if at not in self._taken or self._taken[at].asked <= asked:
                self._taken[at] = _Taking(member, self.now, asked)

    def give_up(self, member: str, partitions: Iterable[At]) -> None:
        """It uses them no more."""
        for at in partitions:
            self._users.get(at, {}).pop(member, None)

    def lose(self, member: str) -> None:
        """It is gone, or was thrown out: it uses nothing any more."""
        for users in self._users.values():
            users.pop(member, None)

    def on_good_heartbeat(self, member: str, sent: float) -> None:
        """A heartbeat of a member was granted."""
        for at, users in self._users.items():
            if member in users:
                self._check(member, at, sent, "heartbeats")

    def _check(self, member: str, at: At, sent: float, does: str) -> None:
        taken = self._taken.get(at)
        if taken is not None and taken.member != member and taken.time < sent and taken.member in self._users[at]:
            raise InvariantViolatedError(
                f"{member} {does} in a request of {sent:.3f} s, and is a user of {at[1]} of {at[0]}, "
                f"which {taken.member} was given at {taken.time:.3f} s"
            )

    # offsets

    def want_commit(self, member: str, at: At, offset: int) -> None:
        """A member asks for it."""
        self._in_doubt.setdefault(at, {}).setdefault(member, Counter())[offset] += 1

    def on_commit(self, member: str, at: At, offset: int, sent: float) -> None:
        """It was granted. An earlier request for the same may still be.

        Who hears that late, when another one has found what is committed, has heard nothing new.
        """
        self._check(member, at, sent, "commits")
        self.commits += 1
        wanted = self._in_doubt.get(at, {}).get(member)
        if wanted is not None:
            wanted[offset] -= 1
            self._committed[at] = offset

    def on_refused_commit(self, member: str, at: At, offset: int) -> None:
        """It was refused, and not written: this time. An earlier request for the same may still be."""
        self._in_doubt.get(at, {}).get(member, Counter())[offset] -= 1

    def on_fetch(self, member: str, at: At, offset: int | None) -> None:
        """A member that was given the partition finds this."""
        if self._taken[at].member != member or member not in self._users.get(at, ()):
            return  # the answer comes late: somebody else may have committed since
        committed, doubts = self._committed.get(at), self._in_doubt.get(at, {})
        if offset != committed and not any(offset is not None and wanted[offset] > 0 for wanted in doubts.values()):
            raise InvariantViolatedError(
                f"{member} was given {at[1]} of {at[0]} and finds offset {offset}; {committed} was committed"
            )
        self._committed[at] = offset
        self._in_doubt[at] = {member: doubts.get(member, Counter())}
