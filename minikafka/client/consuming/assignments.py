"""Subscriptions and assignments, as members exchange them through the coordinator (pure)."""

from __future__ import annotations

from collections.abc import Collection

from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.assignors import Subscriber
from minikafka.model import TopicPartition
from minikafka.wire.consumer_protocol import decode_assignment, decode_subscription, encode_assignment
from minikafka.wire.errors import WireError
from minikafka.wire.messages.consumer_protocol import AssignmentTopicPartition, ConsumerProtocolAssignment
from minikafka.wire.messages.join_group import JoinGroupResponseMember


def subscriber(member: JoinGroupResponseMember) -> Subscriber:
    """A member's subscription. Raises KafkaError when it is malformed."""
    try:
        topics = decode_subscription(member.metadata).topics
    except WireError as error:
        message = f"cannot read the subscription of member {member.member_id!r}: {error}"
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message) from error
    return Subscriber(member.member_id, frozenset(topics), member.group_instance_id)


def read_assignment(blob: bytes) -> list[TopicPartition]:
    """This member's assignment from the group's leader. Raises KafkaError when it is malformed."""
    if not blob:
        return []
    try:
        assignment = decode_assignment(blob)
    except WireError as error:
        raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"cannot read the assignment: {error}") from error
    return [
        TopicPartition(topic.topic, partition)
        for topic in assignment.assigned_partitions
        for partition in topic.partitions
    ]


def write_assignment(share: Collection[TopicPartition]) -> bytes:
    """An assignment, for its member."""
    by_topic: dict[str, list[int]] = {}
    for tp in share:
        by_topic.setdefault(tp.topic, []).append(tp.partition)
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=[
                AssignmentTopicPartition(topic=topic, partitions=indexes) for topic, indexes in by_topic.items()
            ]
        )
    )
