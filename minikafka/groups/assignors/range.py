"""The ``range`` assignor: every topic is cut into as many consecutive ranges as it has subscribers.

The first subscribers get one partition more where it does not come out even. Topics with the same number of
partitions and the same subscribers are cut alike, so partition n of each goes to one member: what joins need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.groups.assignors.subscriber import Assignment, Subscriber, in_order
from minikafka.model import TopicPartition


def range_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """See the module; an :data:`~minikafka.groups.assignors.subscriber.Assignor`."""
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
