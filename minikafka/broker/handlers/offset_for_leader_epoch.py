"""OffsetForLeaderEpoch (key 23), versions 2-4: end offset of a leader epoch in this leader's log (rows E2-E6).

Followers ask over the replication listener before they truncate, consumers over the client listener after a leader
change. librdkafka speaks exactly version 2. A request in the name of a follower needs the cluster secret.
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.context import RequestContext
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)

AUTHORIZATION: Final = (
    Each("topics", AclOperation.DESCRIBE, ResourceType.TOPIC, "topic", on_cluster=AclOperation.CLUSTER_ACTION),
)


def handle(
    request: OffsetForLeaderEpochRequest, context: RequestContext, replicas: Replicas
) -> OffsetForLeaderEpochResponse:
    """Per partition: end of the requested epoch, or the error for an unknown, unauthorised or fenced one (E3, E4)."""
    find = _refuse if request.replica_id >= 0 and not context.is_replica else _end_offset
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[find(topic.topic, wanted, replicas) for wanted in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _refuse(_topic: str, wanted: OffsetForLeaderPartition, _replicas: Replicas) -> EpochEndOffset:
    return EpochEndOffset(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, partition=wanted.partition)


def _end_offset(topic: str, wanted: OffsetForLeaderPartition, replicas: Replicas) -> EpochEndOffset:
    try:
        partition = replicas.leader_of(
            TopicPartition(topic, wanted.partition), current_leader_epoch=wanted.current_leader_epoch
        )
        end = partition.log.end_offset_for_epoch(wanted.leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=wanted.partition)
    return EpochEndOffset(partition=wanted.partition, leader_epoch=end.epoch, end_offset=end.offset)
