"""``uniform``: even loads, with as few moves as possible.

With equal subscriptions no two members differ by more than one partition: each keeps what it has up to its quota, and
the rest goes to those with room. With different subscriptions each free partition goes to the subscriber that has the
least, topics with few subscribers first; then, topic by topic, partitions move from a member with the most to one with
at least two less, until none does. A move lowers the sum of the squares of the loads, so it ends; passes are bounded
all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heapreplace
from typing import Final
from uuid import UUID

from minikafka.groups.consumer.assignors.model import Assignment, FreeByRack, Subscriber, has_racks, is_local
from minikafka.groups.consumer.topics import Topic

PASSES_MAX: Final = 16
"""Over all topics, to even loads out. Two are enough mostly."""


def uniform_assign(members: Sequence[Subscriber], topics: Mapping[UUID, Topic]) -> Assignment:
    """See above."""
    ordered = sorted(members, key=lambda member: member.place)
    if not ordered:
        return {}
    if all(member.topic_ids == ordered[0].topic_ids for member in ordered):
        return _Even(
            ordered, {topic_id: topics[topic_id] for topic_id in topics if topic_id in ordered[0].topic_ids}
        ).assign()
    return _Uneven(ordered, topics).assign()


class _Even:
    """All members have the same topics."""

    def __init__(self, members: Sequence[Subscriber], topics: Mapping[UUID, Topic]) -> None:
        self._members = members
        self._topics = topics
        self._free = {topic_id: set(range(topic.partitions)) for topic_id, topic in topics.items()}
        self._quota, self._more = divmod(sum(topic.partitions for topic in topics.values()), len(members))
        """Each member gets the quota, and so many get one more."""
        self._assignment: Assignment = {member.member_id: {} for member in members}
        self._loads = dict.fromkeys(self._assignment, 0)
        self._has_racks = has_racks(members, topics.values())
        self._racks = {member.rack_id for member in members}

    def assign(self) -> Assignment:
        """Keep, take what is local, take the rest."""
        for member in self._members:
            self._keep(member)
        if self._has_racks:
            self._take_local()
        free = ((topic_id, index) for topic_id, indexes in self._free.items() for index in sorted(indexes))
        for is_first in (True, False):
            for member in self._members:
                for topic_id, index in self._some(free, self._room(member, is_first=is_first)):
                    self._give(member, topic_id, index)
        return self._assignment

    def _some(self, free: Iterator[tuple[UUID, int]], count: int) -> Iterable[tuple[UUID, int]]:
        return [next(free) for _ in range(count)]

    def _room(self, member: Subscriber, *, is_first: bool) -> int:
        """How many it may take: up to the quota first; then those that get one more are chosen."""
        room = self._quota - self._loads[member.member_id]
        if is_first:
            return max(room, 0)
        if room == 0 and self._more:
            self._more -= 1
            return 1
        return 0

    def _keep(self, member: Subscriber) -> None:
        owned = [
            (topic_id, index)
            for topic_id, indexes in member.assigned.items()
            for index in sorted(indexes.intersection(self._free.get(topic_id, ())))
        ]
        if self._has_racks:  # what it has to give up is of use to another member, if may be
            owned.sort(key=lambda pair: self._distance(member, *pair))
        for topic_id, index in owned:
            load = self._loads[member.member_id]
            if load == self._quota and self._more:
                self._more -= 1
            elif load >= self._quota:
                return
            self._give(member, topic_id, index)
            self._free[topic_id].discard(index)

    def _distance(self, member: Subscriber, topic_id: UUID, index: int) -> int:
        """0: in the member's rack. 1: in nobody's. 2: in that of another member."""
        topic = self._topics[topic_id]
        if is_local(topic, index, member.rack_id):
            return 0
        return 1 if not topic.racks or topic.racks[index].isdisjoint(self._racks) else 2

    def _take_local(self) -> None:
        by_rack = FreeByRack(self._topics.values(), self._free)
        for member in self._members:
            for topic_id, index in by_rack.take(member.rack_id, self._quota - self._loads[member.member_id]):
                self._give(member, topic_id, index)

    def _give(self, member: Subscriber, topic_id: UUID, index: int) -> None:
        self._assignment[member.member_id].setdefault(topic_id, set()).add(index)
        self._loads[member.member_id] += 1


class _Uneven:
    """Members have different topics."""

    def __init__(self, members: Sequence[Subscriber], topics: Mapping[UUID, Topic]) -> None:
        self._members = members
        self._topics = topics
        self._subscribers: dict[UUID, list[Subscriber]] = {topic_id: [] for topic_id in topics}
        for member in members:
            for topic_id in member.topic_ids:
                self._subscribers[topic_id].append(member)
        self._assignment: Assignment = {member.member_id: {} for member in members}
        self._loads = dict.fromkeys(self._assignment, 0)
        self._by_subscribers = sorted(
            (topic for topic in topics.values() if self._subscribers[topic.topic_id]),
            key=lambda topic: (len(self._subscribers[topic.topic_id]), topic.topic_id),
        )

    def assign(self) -> Assignment:
        """Keep, give what is free to the least loaded, even out."""
        free = self._keep()
        for topic in self._by_subscribers:
            if topic.racks:
                for index in sorted(free[topic.topic_id]):
                    self._give(self._best(topic, index), topic.topic_id, index)
            else:
                self._spread(topic, sorted(free[topic.topic_id]))
        for _ in range(PASSES_MAX):
            moves = [self._even_out(topic) for topic in self._by_subscribers]
            if not any(moves):
                break
        return {
            member_id: {topic_id: indexes for topic_id, indexes in topics.items() if indexes}
            for member_id, topics in self._assignment.items()
        }

    def _keep(self) -> dict[UUID, set[int]]:
        """Every member keeps what it has and still wants; what is left is free."""
        free = {topic.topic_id: set(range(topic.partitions)) for topic in self._by_subscribers}
        for member in self._members:
            for topic_id, indexes in member.assigned.items():
                if topic_id in member.topic_ids and topic_id in free:
                    for index in sorted(indexes.intersection(free[topic_id])):
                        self._give(member.member_id, topic_id, index)
                        free[topic_id].discard(index)
        return free

    def _spread(self, topic: Topic, indexes: Iterable[int]) -> None:
        """Give each to the subscriber with the least; of equal ones to the first."""
        names = [member.member_id for member in self._subscribers[topic.topic_id]]
        least = [(self._loads[name], place, name) for place, name in enumerate(names)]
        heapify(least)
        for index in indexes:
            load, place, name = least[0]
            self._give(name, topic.topic_id, index)
            heapreplace(least, (load + 1, place, name))

    def _best(self, topic: Topic, index: int) -> str:
        """Of the least loaded subscribers one in a rack of the partition."""
        return min(
            self._subscribers[topic.topic_id],
            key=lambda member: (self._loads[member.member_id], not is_local(topic, index, member.rack_id)),
        ).member_id

    def _even_out(self, topic: Topic) -> bool:
        """Move partitions of one topic from the most to the least loaded of its subscribers; True if one moved."""
        topic_id, has_moved = topic.topic_id, False
        names = [member.member_id for member in self._subscribers[topic_id]]
        while True:
            givers = [name for name in names if self._assignment[name].get(topic_id)]
            giver = max(givers, key=self._load_of)
            taker = min(names, key=self._load_of)
            if self._load_of(giver) < self._load_of(taker) + 2:
                return has_moved
            index = max(self._assignment[giver][topic_id])
            self._assignment[giver][topic_id].discard(index)
            self._loads[giver] -= 1
            self._give(taker, topic_id, index)
            has_moved = True

    def _load_of(self, member_id: str) -> int:
        return self._loads[member_id]

    def _give(self, member_id: str, topic_id: UUID, index: int) -> None:
        self._assignment[member_id].setdefault(topic_id, set()).add(index)
        self._loads[member_id] += 1
