"""ConsumerProtocol."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, bytes_, int32, string


class SubscriptionTopicPartition(Message):
    topic: str = string("1+")
    partitions: list[int] = array(int32, "1+")


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    topics: list[str] = array(string, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
    owned_partitions: list[SubscriptionTopicPartition] = array(SubscriptionTopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", nullable="3+", default=None)


class AssignmentTopicPartition(Message):
    topic: str = string("0+")
    partitions: list[int] = array(int32, "0+")


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    assigned_partitions: list[AssignmentTopicPartition] = array(AssignmentTopicPartition, "0+")
    user_data: bytes | None = bytes_("0+", nullable="0+", default=None)
