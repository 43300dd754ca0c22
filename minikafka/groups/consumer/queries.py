"""ConsumerGroupDescribe: a read-only view of a consumer group (row G12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from minikafka.errors import ErrorCode, KafkaError
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.target import assignor_of
from minikafka.groups.consumer.topics import Topics
from minikafka.groups.shard import Shard
from minikafka.wire.messages.consumer_group_describe import (
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerMember,
    DescribedTopicPartitions,
)

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Types of members (KIP-1099)."""


def describe_consumer_group(shard: Shard, group_id: str) -> DescribedConsumerGroup:
    """The group with its members; GROUP_ID_NOT_FOUND for an unknown one, and for a classic one."""
    group = shard.groups.get(group_id)
    if group is None or group.consumer is None or not group.is_consumer:
        why = f"group {group_id!r} not found" if group is None else f"group {group_id!r} is not a consumer group"
        error = KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, why)
        return DescribedConsumerGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    consumer, names = group.consumer, _Names(shard.topics)
    return DescribedConsumerGroup(
        group_id=group_id,
        group_state=consumer.state.value,
        group_epoch=consumer.epoch,
        assignment_epoch=consumer.assignment_epoch,
        assignor_name=assignor_of(consumer, shard.settings.consumer_assignors),
        members=[_member(consumer, member_id, names) for member_id in consumer.subscriptions],
    )


class _Names(dict[UUID, str | None]):
    """Of topics, by id, each looked up once: hundreds of members have partitions of the same; None if it is deleted."""

    def __init__(self, topics: Topics) -> None:
        super().__init__()
        self._topics = topics

    def __missing__(self, topic_id: UUID) -> str | None:
        topic = self._topics.with_id(topic_id)
        name = self[topic_id] = None if topic is None else topic.name
        return name


def _member(consumer: ConsumerGroup, member_id: str, names: _Names) -> DescribedConsumerMember:
    subscription, current = consumer.subscriptions[member_id], consumer.current(member_id)
    return DescribedConsumerMember(
        member_id=member_id,
        instance_id=subscription.instance_id,
        rack_id=subscription.rack_id,
        member_epoch=current.member_epoch,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        subscribed_topic_names=list(subscription.topic_names),
        subscribed_topic_regex=subscription.topic_regex or None,
        assignment=_assignment(current.assigned, names),
        target_assignment=_assignment(consumer.targets.get(member_id, {}), names),
        member_type=CONSUMER_MEMBER if subscription.classic is None else CLASSIC_MEMBER,
    )


def _assignment(partitions: Mapping[UUID, Iterable[int]], names: _Names) -> DescribedAssignment:
    """By topic name; a topic that is deleted has none, and is left out."""
    known = sorted((name, topic_id) for topic_id in partitions if (name := names[topic_id]) is not None)
    return DescribedAssignment(
        topic_partitions=[
            DescribedTopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(partitions[topic_id]))
            for name, topic_id in known
        ]
    )
