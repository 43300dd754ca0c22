"""The assignors that a group's leader runs, as pure functions.

Every assignor takes the members and the number of partitions of each topic. It returns the partitions of each member,
perhaps an empty list. Every partition of a subscribed topic goes to exactly one of its subscribers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from minikafka.model import TopicPartition

NO_GENERATION = -1


class Subscriber(NamedTuple):
    """A member: its topics, and the partitions it owned in its last generation (KIP-429, KIP-792)."""

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
    """The members in Kafka's order: static ones by instance id, then the others by member id."""
    return sorted(
        members, key=lambda member: (member.group_instance_id is None, member.group_instance_id or member.member_id)
    )


def range_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """``range``: each topic is cut into consecutive ranges, one per subscriber.

    If the number is uneven, the first subscribers get one partition more. Topics with equal partition counts and equal
    subscribers are cut alike: partition n of each goes to the same member, as joins need it.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_order(members)
    for topic in sorted(partition_counts):
        subscribers = [member.member_id for member in ordered if topic in member.topics]
        first = 0
        for position, member_id in enumerate(subscribers):
            share, rest = divmod(partition_counts[topic], len(subscribers))
            last = first + share + (position < rest)
            assignment[member_id] += [TopicPartition(topic, index) for index in range(first, last)]
            first = last
    return assignment


def roundrobin_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """``roundrobin``: all partitions of all topics, in order, to one member after the other.

    A member that does not subscribe to the topic is skipped. With the same subscription for all, no two members differ
    by more than one partition.
    """
    assignment: Assignment = {member.member_id: [] for member in members}
    ordered = in_order(members)
    turn = 0
    for topic in sorted(partition_counts):
        if not any(topic in member.topics for member in ordered):
            continue
        for index in range(partition_counts[topic]):
            while topic not in ordered[turn].topics:
                turn = (turn + 1) % len(ordered)
            assignment[ordered[turn].member_id].append(TopicPartition(topic, index))
            turn = (turn + 1) % len(ordered)
    return assignment


def cooperative_sticky_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """``cooperative-sticky``: :func:`sticky_assign`, without the partitions that move (KIP-429).

    A partition that moves has no owner in this generation. Its old owner gives it up and joins again; the next
    rebalance assigns it to the new owner. So members go on consuming all other partitions during a rebalance.
    """
    claims = _claims(members)
    return {
        member_id: [at for at in partitions if not claims[at] - {member_id}]
        for member_id, partitions in sticky_assign(members, partition_counts).items()
    }


def sticky_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """A balanced assignment that moves as few partitions as possible.

    It starts from the owned partitions, and gives each free one to the subscriber with the fewest. Then it moves single
    partitions from a member to one with at least two fewer, until no move is left. Every move lowers the sum of the
    squares of the loads, so it ends.
    """
    ordered = in_order(members)
    subscribers = {
        topic: [member.member_id for member in ordered if topic in member.topics] for topic in sorted(partition_counts)
    }
    assignment: Assignment = {member.member_id: [] for member in ordered}
    claims = _claims(members)
    homeless = []
    for topic, eligible in subscribers.items():
        for at in (TopicPartition(topic, index) for index in range(partition_counts[topic] if eligible else 0)):
            owners = [member_id for member_id in claims[at] if member_id in eligible]
            if len(claims[at]) == 1 and owners:
                assignment[owners[0]].append(at)
            else:
                homeless.append(at)
    # Topics with few subscribers come first: the others can balance the loads later.
    for at in sorted(homeless, key=lambda at: len(subscribers[at.topic])):
        assignment[_least_loaded(subscribers[at.topic], assignment)].append(at)
    _even_out(assignment, subscribers)
    return {member_id: sorted(partitions) for member_id, partitions in assignment.items()}


def _claims(members: Sequence[Subscriber]) -> defaultdict[TopicPartition, set[str]]:
    """The claimed owner of each partition. Only claims of the newest generation count."""
    newest = max((member.generation_id for member in members if member.owned), default=0)
    claims: defaultdict[TopicPartition, set[str]] = defaultdict(set)
    for member in members:
        if member.generation_id == newest:
            for at in member.owned:
                claims[at].add(member.member_id)
    return claims


def _least_loaded(eligible: Sequence[str], assignment: Assignment) -> str:
    return min(eligible, key=lambda member_id: len(assignment[member_id]))


def _even_out(assignment: Assignment, subscribers: Mapping[str, Sequence[str]]) -> None:
    """Move partitions until no single move makes the loads more even.

    One at a time, from the most loaded member that can give one: so no member both gives and takes.
    """
    while any(
        _give_one(giver, assignment, subscribers)
        for giver in sorted(assignment, key=lambda member_id: -len(assignment[member_id]))
    ):
        pass


def _give_one(giver: str, assignment: Assignment, subscribers: Mapping[str, Sequence[str]]) -> bool:
    """Move the last partition of `giver` that fits a less loaded member; False if no partition fits."""
    partitions = assignment[giver]
    for topic in {at.topic: None for at in partitions}:
        taker = _least_loaded(subscribers[topic], assignment)
        if len(assignment[taker]) + 2 <= len(partitions):
            position = max(index for index, at in enumerate(partitions) if at.topic == topic)
            assignment[taker].append(partitions.pop(position))
            return True
    return False


ASSIGNORS: Final[dict[str, Assignor]] = {
    "range": range_assign,
    "roundrobin": roundrobin_assign,
    "cooperative-sticky": cooperative_sticky_assign,
}
"""The assignors by the names that members propose them under."""
