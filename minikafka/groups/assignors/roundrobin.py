"""The ``roundrobin`` assignor: all partitions of all topics, in order, to one member after the other.

A member that does not subscribe to the topic is skipped. With the same subscription for all, no two members differ by
more than one partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from minikafka.groups.assignors.subscriber import Assignment, Subscriber, in_order
from minikafka.model import TopicPartition


def roundrobin_assign(members: Sequence[Subscriber], partition_counts: Mapping[str, int]) -> Assignment:
    """See the module; an :data:`~minikafka.groups.assignors.subscriber.Assignor`."""
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
