"""AlterReplicaLogDirs (API key 34)."""

from __future__ import annotations

from minikafka.wire.schema import Message, array, int16, int32, string


class AlterReplicaLogDirTopic(Message):
    name: str = string("0+")
    partitions: list[int] = array(int32, "0+", named=True)


class AlterReplicaLogDir(Message):
    path: str = string("0+")
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+")


class AlterReplicaLogDirsRequest(Message, versions="1-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+")


class AlterReplicaLogDirPartitionResult(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class AlterReplicaLogDirTopicResult(Message):
    topic_name: str = string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult, "0+")


class AlterReplicaLogDirsResponse(Message, versions="1-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+")
