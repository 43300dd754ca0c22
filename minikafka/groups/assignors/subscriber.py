"""What an assignor is told about a member."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from minikafka.model import TopicPartition

NO_GENERATION = -1


class Subscriber(NamedTuple):
    """A member: what it subscribes to, and what it owned in which generation (KIP-429, KIP-792)."""

    member_id: str
    topics: frozenset[str]
    group_instance_id: str | None = None
    owned: tuple[TopicPartition, ...] = ()
    generation_id: int = NO_GENERATION


Assignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions."""

Assignor = Callable[[Sequence[Subscriber], Mapping[str, int]], Assignment]
"""(members, topic -> number of partitions) -> assignment. Topics that do not exist are not in the mapping."""


def in_order(members: Iterable[Subscriber]) -> list[Subscriber]:
    """The members in Kafka's order: static ones by instance id, whatever their member ids, then the others."""
    return sorted(
        members, key=lambda member: (member.group_instance_id is None, member.group_instance_id or member.member_id)
    )
