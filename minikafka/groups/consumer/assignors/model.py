"""What an assignor is told, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from minikafka.groups.consumer.records import Partitions
from minikafka.groups.consumer.topics import Topic

NOTHING: Final[Partitions] = {}


class Subscriber(NamedTuple):
    """A member: its topics that exist, and its target assignment so far. Members with equal topics share the set."""

    member_id: str
    topic_ids: frozenset[UUID]
    instance_id: str | None = None
    rack_id: str | None = None
    assigned: Partitions = NOTHING

    @property
    def place(self) -> tuple[bool, str]:
        """Kafka's order of members: static ones by instance id, then the others by member id."""
        return self.instance_id is None, self.instance_id or self.member_id


Assignment = dict[str, dict[UUID, set[int]]]
"""Member id -> topic id -> partitions."""

Assignor = Callable[[Sequence[Subscriber], Mapping[UUID, Topic]], Assignment]
"""(members, all their topics by id) -> the new target assignment."""


def is_local(topic: Topic, partition: int, rack_id: str | None) -> bool:
    """True when the partition has a replica in this rack."""
    return bool(topic.racks) and rack_id in topic.racks[partition]


def has_racks(members: Iterable[Subscriber], topics: Iterable[Topic]) -> bool:
    """True when racks can make a difference."""
    return any(topic.racks for topic in topics) and any(member.rack_id is not None for member in members)


class FreeByRack:
    """Free partitions, in order, by the racks of their replicas. Each is looked at once for each of its racks."""

    def __init__(self, topics: Iterable[Topic], free: Mapping[UUID, set[int]]) -> None:
        self._free = free
        found: dict[str, list[tuple[UUID, int]]] = {}
        for topic in topics:
            for index in sorted(free[topic.topic_id]) if topic.racks else ():
                for rack in topic.racks[index]:
                    found.setdefault(rack, []).append((topic.topic_id, index))
        self._left = {rack: iter(partitions) for rack, partitions in found.items()}

    def take(self, rack_id: str | None, count: int) -> list[tuple[UUID, int]]:
        """Up to so many with a replica in that rack; they are free no more."""
        taken: list[tuple[UUID, int]] = []
        for topic_id, index in self._left.get(rack_id or "", ()) if count > 0 else ():
            if index in self._free[topic_id]:
                self._free[topic_id].discard(index)
                taken.append((topic_id, index))
                if len(taken) == count:
                    break
        return taken
