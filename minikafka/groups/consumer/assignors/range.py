"""``range``: each topic is cut into consecutive ranges, one per subscriber.

If the number is uneven, the first subscribers get one partition more. Topics with as many partitions and the same
subscribers are cut alike: partition n of each goes to the same member, as joins need it. With racks, each subscriber
takes what is local first, up to its share; topics whose replicas are placed alike are still cut alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from uuid import UUID

from minikafka.groups.consumer.assignors.model import Assignment, FreeByRack, Subscriber, has_racks
from minikafka.groups.consumer.topics import Topic


def range_assign(members: Sequence[Subscriber], topics: Mapping[UUID, Topic]) -> Assignment:
    """See above."""
    assignment: Assignment = {member.member_id: {} for member in members}
    ordered = sorted(members, key=lambda member: member.place)
    local = has_racks(members, topics.values())
    subscribers: dict[UUID, list[Subscriber]] = {topic_id: [] for topic_id in topics}
    for member in ordered:
        for topic_id in member.topic_ids:
            subscribers[topic_id].append(member)
    for topic in topics.values():
        wanting = subscribers[topic.topic_id]
        if not wanting:
            continue
        shares = _shares(topic.partitions, len(wanting))
        cut = _cut_by_racks(topic, wanting, shares) if local and topic.racks else _cut(tuple(shares))
        for member, partitions in zip(wanting, cut, strict=True):
            if partitions:
                assignment[member.member_id][topic.topic_id] = partitions
    return assignment


def _shares(partitions: int, members: int) -> list[int]:
    share, rest = divmod(partitions, members)
    return [share + (position < rest) for position in range(members)]


@lru_cache(maxsize=64)
def _cut(shares: tuple[int, ...]) -> list[set[int]]:
    """Nobody changes these sets: most topics of a group are cut alike."""
    cut, first = [], 0
    for share in shares:
        cut.append(set(range(first, first + share)))
        first += share
    return cut


def _cut_by_racks(topic: Topic, members: Sequence[Subscriber], shares: Sequence[int]) -> list[set[int]]:
    cut: list[set[int]] = [set() for _ in members]
    free = {topic.topic_id: set(range(topic.partitions))}
    by_rack = FreeByRack([topic], free)
    for member, share, partitions in zip(members, shares, cut, strict=True):
        partitions.update(index for _, index in by_rack.take(member.rack_id, share))
    rest = iter(sorted(free[topic.topic_id]))
    for share, partitions in zip(shares, cut, strict=True):
        partitions.update(next(rest) for _ in range(share - len(partitions)))
    return cut
