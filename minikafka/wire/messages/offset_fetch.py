"""OffsetFetch (API key 9). Kafka has a second set of the nested structures for versions 0-7; their bytes are these."""

from __future__ import annotations

from uuid import UUID

from minikafka.wire.schema import Message, array, boolean, int16, int32, int64, string, uuid


class OffsetFetchRequestTopics(Message):
    name: str = string("0-9")
    topic_id: UUID = uuid("10+")
    partition_indexes: list[int] = array(int32, "0+", named=True)


class OffsetFetchRequestGroup(Message):
    group_id: str = string("8+")
    member_id: str | None = string("9+", nullable="9+", default=None)
    member_epoch: int = int32("9+", default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "8+", nullable="8+")


class OffsetFetchRequest(Message, versions="1-10", flexible="6+"):
    group_id: str = string("0-7")
    topics: list[OffsetFetchRequestTopics] | None = array(OffsetFetchRequestTopics, "0-7", nullable="2-7")
    groups: list[OffsetFetchRequestGroup] = array(OffsetFetchRequestGroup, "8+")
    require_stable: bool = boolean("7+")


class OffsetFetchResponsePartitions(Message):
    partition_index: int = int32("0+")
    committed_offset: int = int64("0+")
    committed_leader_epoch: int = int32("5+", default=-1)
    metadata: str | None = string("0+", nullable="0+")
    error_code: int = int16("0+")


class OffsetFetchResponseTopics(Message):
    name: str = string("0-9")
    topic_id: UUID = uuid("10+")
    partitions: list[OffsetFetchResponsePartitions] = array(OffsetFetchResponsePartitions, "0+")


class OffsetFetchResponseGroup(Message):
    group_id: str = string("8+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "8+")
    error_code: int = int16("8+")


class OffsetFetchResponse(Message, versions="1-10", flexible="6+"):
    throttle_time_ms: int = int32("3+")
    topics: list[OffsetFetchResponseTopics] = array(OffsetFetchResponseTopics, "0-7")
    error_code: int = int16("2-7")
    groups: list[OffsetFetchResponseGroup] = array(OffsetFetchResponseGroup, "8+")
