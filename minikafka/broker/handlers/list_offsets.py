"""ListOffsets (key 2), versions 1-8: the earliest or latest offset, or the first at or after a timestamp.

Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (KIP-734), -4 earliest local.
A consumer never learns of an offset beyond the high watermark; a follower asks over the replication listener and is
told the log's own ends. A new leader does not know yet how far its predecessor's high watermark was: until its own has
reached the start of its epoch, the end is not known, lest it go back under a consumer (KIP-207).
"""

from __future__ import annotations

from minikafka.broker.context import RequestContext
from minikafka.broker.partition import Partition
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Isolation, TopicPartition
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4


def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
    """Answer per partition, errors included."""
    isolation = Isolation.READ_COMMITTED if request.isolation_level else Isolation.READ_UNCOMMITTED
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_answer(topic.name, wanted, isolation, context) for wanted in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _answer(
    topic: str, wanted: ListOffsetsPartition, isolation: Isolation, context: RequestContext
) -> ListOffsetsPartitionResponse:
    index = wanted.partition_index
    try:
        partition = context.node.replicas.leader_of(
            TopicPartition(topic, index), current_leader_epoch=wanted.current_leader_epoch
        )
        if context.is_replica:
            timestamp, offset, epoch = _find(partition, wanted.timestamp, partition.log.log_end_offset)
        else:
            timestamp, offset, epoch = _find(partition, wanted.timestamp, partition.read_limit(isolation))
            if offset == NO_OFFSET or wanted.timestamp == LATEST:
                _check_end_is_known(partition, context.version)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
    return ListOffsetsPartitionResponse(partition_index=index, timestamp=timestamp, offset=offset, leader_epoch=epoch)


def _check_end_is_known(partition: Partition, version: int) -> None:
    leader = partition.leader
    if leader is not None and leader.high_watermark < leader.leader_epoch_start_offset:
        is_known_error = version >= FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE if is_known_error else ErrorCode.LEADER_NOT_AVAILABLE,
            f"{partition.topic_partition}: the high watermark has not reached the start of this leader's epoch yet",
        )


def _find(partition: Partition, timestamp: int, limit: int) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch); offset -1 when no record is that young."""
    log = partition.log
    if timestamp == LATEST:
        return NO_TIMESTAMP, limit, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return NO_TIMESTAMP, log.log_start_offset, log.epoch_for_offset(log.log_start_offset)
    if timestamp == MAX_TIMESTAMP:
        found = log.offset_of_max_timestamp()
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp)
    else:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"timestamp {timestamp} has no meaning; use -1, -2, -3 or a time")
    if found is None or found.offset >= limit:
        return NO_TIMESTAMP, NO_OFFSET, NO_EPOCH
    return found.timestamp, found.offset, found.leader_epoch
