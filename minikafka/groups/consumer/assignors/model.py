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
