"""Who gets which partition: the assignors that a group's leader runs, as pure functions.

Every assignor takes the members and the number of partitions of each topic, and gives every member its partitions
(an empty list to who gets none). Every partition of a topic that somebody subscribes to goes to one member who does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

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


def range_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """``range``: every topic is cut into as many consecutive ranges as it has subscribers.

    The first subscribers get one partition more where it does not come out even. Topics with the same number of
    partitions and the same subscribers are cut alike, so partition n of each goes to one member: what joins need.
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
    """``cooperative-sticky``: what :func:`sticky_assign` says, without the partitions that are to move (KIP-429).

    Such a partition is given to nobody yet. Its owner sees that it has lost it, gives it up, and joins again; that
    rebalance gives it to the new owner. So members keep consuming what they keep during a rebalance.
    """
    claims = _claims(members)
    return {
        member_id: [at for at in partitions if not claims[at] - {member_id}]
        for member_id, partitions in sticky_assign(members, partition_counts).items()
    }


def sticky_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """Balanced, and moving as few partitions as balance allows.

    Starts from what the members own, gives what nobody owns to the subscriber with the least, and then moves single
    partitions from a member to one that has at least two less, until no such move is left. Every move lessens the sum
    of the squares of the loads, so it ends.
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
    # Topics with few subscribers first: the others can still even out what they make uneven.
    for at in sorted(homeless, key=lambda at: len(subscribers[at.topic])):
        assignment[_least_loaded(subscribers[at.topic], assignment)].append(at)
    _even_out(assignment, subscribers)
    return {member_id: sorted(partitions) for member_id, partitions in assignment.items()}


def _claims(members: Sequence[Subscriber]) -> defaultdict[TopicPartition, set[str]]:
    """Who says to own a partition. Only the newest generation counts: who missed it has lost what it owned."""
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

    One at a time, always from the most loaded member that has one to give: so nobody gives and takes.
    """
    while any(
        _give_one(giver, assignment, subscribers)
        for giver in sorted(assignment, key=lambda member_id: -len(assignment[member_id]))
    ):
        pass


def _give_one(giver: str, assignment: Assignment, subscribers: Mapping[str, Sequence[str]]) -> bool:
    """Move the last partition of `giver` that somebody should have rather; False when there is none."""
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
