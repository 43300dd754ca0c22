"""AssignReplicasToDirs (API key 73): a broker tells in which of its log directories replicas are (KIP-858)."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, int16, int32, int64, string, uuid


class PartitionData(Message):
    partition_index: int = int32("0+")


class TopicData(Message):
    topic_id: UUID = uuid("0+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


class DirectoryData(Message):
    id: UUID = uuid("0+")
    topics: list[TopicData] = array(TopicData, "0+")


class AssignReplicasToDirsRequest(Message, versions="0", flexible="0+"):
    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    directories: list[DirectoryData] = array(DirectoryData, "0+")


class PartitionResult(Message):
    """What came of one assignment; ``error_message`` is our own field."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None, tag=10_000)


class TopicResult(Message):
    topic_id: UUID = uuid("0+")
    partitions: list[PartitionResult] = array(PartitionResult, "0+")


class DirectoryResult(Message):
    id: UUID = uuid("0+")
    topics: list[TopicResult] = array(TopicResult, "0+")


class AssignReplicasToDirsResponse(Message, versions="0", flexible="0+"):
    """One result per assignment, in order."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    directories: list[DirectoryResult] = array(DirectoryResult, "0+")
