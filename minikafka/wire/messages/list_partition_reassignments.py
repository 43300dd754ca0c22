"""ListPartitionReassignments (API key 46)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, int16, int32, string


class ListPartitionReassignmentsTopics(Message):
    name: str = string("0+")
    partition_indexes: list[int] = array(int32, "0+", named=True)


class ListPartitionReassignmentsRequest(Message, versions="0", flexible="0+"):
    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", nullable="0+", default=None
    )


class OngoingPartitionReassignment(Message):
    partition_index: int = int32("0+")
    replicas: list[int] = array(int32, "0+")
    adding_replicas: list[int] = array(int32, "0+")
    removing_replicas: list[int] = array(int32, "0+")


class OngoingTopicReassignment(Message):
    name: str = string("0+")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(Message, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")
