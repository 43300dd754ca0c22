"""CreatePartitions (API key 37)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Message):
    broker_ids: list[int] = array(int32, "0+")


class CreatePartitionsTopic(Message):
    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(CreatePartitionsAssignment, "0+", nullable="0+")


class CreatePartitionsRequest(Message, versions="0-3", flexible="2+"):
    """The tagged fields are our own, from a node to the controller: the client that asked for it, its user, and whether its
    version knows THROTTLING_QUOTA_EXCEEDED. None: the node itself."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")
    client_id: str | None = string("2+", nullable="2+", default=None, tag=10_000)
    knows_quotas: bool = boolean("2+", tag=10_001)
    user: str = string("2+", tag=10_002)


class CreatePartitionsTopicResult(Message):
    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, versions="0-3", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
