"""Fetch (API key 1)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from minikafka.wire.schema import Buffer, Message, array, int8, int16, int32, int64, records_, string, struct, uuid

RECORDS_END_TAG: Final = 10_000
"""Ours, not Kafka's: only followers of this cluster are told (decision 0018). Kafka numbers its tags from 0 on."""


class ReplicaState(Message):
    replica_id: int = int32("15+", default=-1)
    replica_epoch: int = int64("15+", default=-1)


class FetchPartition(Message):
    partition: int = int32("0+")
    current_leader_epoch: int = int32("9+", default=-1)
    fetch_offset: int = int64("0+")
    last_fetched_epoch: int = int32("12+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    partition_max_bytes: int = int32("0+")
    replica_directory_id: UUID = uuid("17+", tag=0)
    high_watermark: int = int64("18+", tag=1, default=2**63 - 1)


class FetchTopic(Message):
    topic: str = string("0-12")
    topic_id: UUID = uuid("13+")
    partitions: list[FetchPartition] = array(FetchPartition, "0+")


class ForgottenTopic(Message):
    topic: str = string("7-12")
    topic_id: UUID = uuid("13+")
    partitions: list[int] = array(int32, "7+", named=True)


class FetchRequest(Message, versions="4-18", flexible="12+"):
    cluster_id: str | None = string("12+", nullable="12+", tag=0, default=None)
    replica_id: int = int32("0-14", default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, "15+", tag=1)
    max_wait_ms: int = int32("0+")
    min_bytes: int = int32("0+")
    max_bytes: int = int32("3+", default=2147483647)
    isolation_level: int = int8("4+")
    session_id: int = int32("7+")
    session_epoch: int = int32("7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic, "0+")
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, "7+")
    rack_id: str = string("11+")


class EpochEndOffset(Message):
    epoch: int = int32("12+", default=-1)
    end_offset: int = int64("12+", default=-1)


class LeaderIdAndEpoch(Message):
    leader_id: int = int32("12+", default=-1)
    leader_epoch: int = int32("12+", default=-1)


class SnapshotId(Message):
    end_offset: int = int64("0+", default=-1)
    epoch: int = int32("0+", default=-1)


class AbortedTransaction(Message):
    producer_id: int = int64("4+")
    first_offset: int = int64("4+")


class PartitionData(Message):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    high_watermark: int = int64("0+")
    last_stable_offset: int = int64("4+", default=-1)
    log_start_offset: int = int64("5+", default=-1)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, "12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, "12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, "12+", tag=2)
    records_end_offset: int = int64("12+", tag=RECORDS_END_TAG, default=-1)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, "4+", nullable="4+")
    preferred_read_replica: int = int32("11+", default=-1)
    records: Buffer | None = records_("0+", nullable="0+")


class FetchableTopicResponse(Message):
    topic: str = string("0-12")
    topic_id: UUID = uuid("13+")
    partitions: list[PartitionData] = array(PartitionData, "0+")


class NodeEndpoint(Message):
    node_id: int = int32("16+")
    host: str = string("16+")
    port: int = int32("16+")
    rack: str | None = string("16+", nullable="16+", default=None)


class FetchResponse(Message, versions="4-18", flexible="12+"):
    throttle_time_ms: int = int32("1+")
    error_code: int = int16("7+")
    session_id: int = int32("7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse, "0+")
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, "16+", tag=0)
