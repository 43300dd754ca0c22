"""The ``cooperative-sticky`` assignor: balanced, and moving as few partitions as balance allows.

:func:`sticky_assign` starts from what the members own, gives what nobody owns to the subscriber with the least, and
then moves single partitions from a member to one that has at least two less, until no such move is left. Every move
lessens the sum of the squares of the loads, so it ends.

:func:`cooperative_sticky_assign` is what a group agrees on (KIP-429): a partition that is to move is given to nobody
yet. Its owner sees that it has lost it, gives it up, and joins again; the next assignment gives it to the new owner. So
members keep consuming what they keep during a rebalance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from minikafka.groups.assignors.subscriber import Assignment, Subscriber, in_order
from minikafka.model import TopicPartition


def cooperative_sticky_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """See the module; an :data:`~minikafka.groups.assignors.subscriber.Assignor`.

    Partitions that are to move are left out: when one is, there must be another rebalance.
    """
    claims = _claims(members)
    return {
        member_id: [at for at in partitions if not claims[at] - {member_id}]
        for member_id, partitions in sticky_assign(members, partition_counts).items()
    }


def sticky_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """See the module; an :data:`~minikafka.groups.assignors.subscriber.Assignor`."""
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
