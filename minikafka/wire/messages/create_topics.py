"""CreateTopics (API key 19)."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, boolean, int8, int16, int32, string, uuid


class CreatableReplicaAssignment(Message):
    partition_index: int = int32("0+")
    broker_ids: list[int] = array(int32, "0+")


class CreatableTopicConfig(Message):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Message):
    name: str = string("0+")
    num_partitions: int = int32("0+")
    replication_factor: int = int16("0+")
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Message, versions="2-7", flexible="5+"):
    """The tagged fields are our own, from a node to the controller: the client that asked for it, its user, and whether its
    version knows THROTTLING_QUOTA_EXCEEDED. None: the node itself."""

    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)
    validate_only: bool = boolean("1+")
    client_id: str | None = string("5+", nullable="5+", default=None, tag=10_000)
    knows_quotas: bool = boolean("5+", tag=10_001)
    user: str = string("5+", tag=10_002)


class CreatableTopicConfigs(Message):
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")
    read_only: bool = boolean("5+")
    config_source: int = int8("5+", default=-1)
    is_sensitive: bool = boolean("5+")


class CreatableTopicResult(Message):
    name: str = string("0+")
    topic_id: UUID = uuid("7+")
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+")
    topic_config_error_code: int = int16("5+", tag=0)
    num_partitions: int = int32("5+", default=-1)
    replication_factor: int = int16("5+", default=-1)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+")


class CreateTopicsResponse(Message, versions="2-7", flexible="5+"):
    throttle_time_ms: int = int32("2+")
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")
