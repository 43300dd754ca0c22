"""Whether members of a group begin where its offsets were committed. Pure.

The offset of a group is a register that its members write. Who begins with a partition reads it, and must find a write
that no other one has surely replaced. A commit takes effect between the time when its member was handed the record
before it and the time when it was told of its end. librdkafka repeats a commit without an answer, also after a later
one, and one that failed for it may have been carried out, or be still: so a commit is surely replaced only by one that
was asked for some time after its end.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

NOTED_MS: Final = 1_000
"""So late a client may note what it was handed, or told."""
LATE_MS: Final = 15_000
"""So late a commit may still be carried out that failed for its member."""


class Commit(NamedTuple):
    """A commit of an offset."""

    offset: int
    asked_ms: int  # not before
    over_ms: int  # it has no effect after that
    told_ms: int
    is_done: bool


class Begin(NamedTuple):
    """Where a member began with a partition."""

    member: str
    assigned_ms: int
    offset: int


class Commits:
    """The commits of one group, and where its members begin. Partitions are named ``topic-0``; times are in ms."""

    def __init__(self) -> None:
        self.count = 0
        """Members were told so often that something is committed."""
        self._commits: defaultdict[str, list[Commit]] = defaultdict(list)
        self._begins: defaultdict[str, list[Begin]] = defaultdict(list)
        self._assigned: dict[tuple[str, str], int] = {}  # member and partition: when, until it is handed something
        self._handed: defaultdict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)  # up to an offset: when

    def assigned(self, member: str, partitions: Iterable[str], now_ms: int) -> None:
        """It will ask for the committed offsets of these, and begin there."""
        for partition in partitions:
            self._assigned[member, partition] = now_ms

    def handed(self, member: str, partition: str, offset: int, now_ms: int) -> None:
        """A record."""
        assigned_ms = self._assigned.pop((member, partition), None)
        if assigned_ms is not None:
            self._begins[partition].append(Begin(member, assigned_ms, offset))
        handed = self._handed[member, partition]
        if handed and handed[-1][1] == now_ms:
            handed[-1] = offset, now_ms
        else:
            handed.append((offset, now_ms))

    def told(self, member: str, offsets: Sequence[tuple[str, int]], now_ms: int, *, is_done: bool) -> None:
        """It knows how a commit ended."""
        self.count += is_done and bool(offsets)
        for partition, offset in offsets:
            handed = reversed(self._handed[member, partition])
            asked_ms = next((when for before, when in handed if before < offset), 0)
            over_ms = now_ms + (NOTED_MS if is_done else LATE_MS)
            self._commits[partition].append(Commit(offset, asked_ms, over_ms, now_ms, is_done))

    def moved_back(self) -> Iterator[str]:
        """A sentence for each member that began before what the group had committed."""
        for partition, begins in sorted(self._begins.items()):
            for begin in begins:
                least = self._least(partition, begin)
                if begin.offset < least:
                    yield f"{begin.member} was handed {partition} from {begin.offset:,} on, and {least:,} was committed"

    def _least(self, partition: str, begin: Begin) -> float:
        """The lowest offset that it may find; 0 where nothing was committed for certain."""
        before = [each for each in self._commits[partition] if each.is_done and each.told_ms < begin.assigned_ms]
        latest_ms = max((each.asked_ms for each in before), default=-math.inf)
        if not before:
            return 0
        return min(each.offset for each in self._commits[partition] if each.over_ms >= latest_ms)
