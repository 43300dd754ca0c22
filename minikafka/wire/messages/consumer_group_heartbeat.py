"""ConsumerGroupHeartbeat (API key 68)."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, int16, int32, string, struct, uuid


class HeartbeatTopicPartitions(Message):
    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(int32, "0+", named=True)


class ConsumerGroupHeartbeatRequest(Message, versions="0-1", flexible="0+"):
    group_id: str = string("0+")
    member_id: str = string("0+")
    member_epoch: int = int32("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    rebalance_timeout_ms: int = int32("0+", default=-1)
    subscribed_topic_names: list[str] | None = array(string, "0+", nullable="0+", default=None)
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    topic_partitions: list[HeartbeatTopicPartitions] | None = array(
        HeartbeatTopicPartitions, "0+", nullable="0+", default=None
    )


class AssignedTopicPartitions(Message):
    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(int32, "0+")


class HeartbeatAssignment(Message):
    topic_partitions: list[AssignedTopicPartitions] = array(AssignedTopicPartitions, "0+")


class ConsumerGroupHeartbeatResponse(Message, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    assignment: HeartbeatAssignment | None = struct(HeartbeatAssignment, "0+", nullable="0+")
