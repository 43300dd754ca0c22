"""ListOffsets (key 2), versions 1-11: the earliest or latest offset, or the first at or after a timestamp.

Special timestamps: -1 latest, -2 earliest, -3 the record with the largest timestamp (KIP-734), -4 earliest local. -5
and -6 ask for tiers (KIP-1005, KIP-1023), of which there are none.
A consumer never learns of an offset beyond the high watermark; a follower asks over the replication listener and is
told the log's own ends. A new leader does not know yet how far its predecessor's high watermark was: until its own has
reached the start of its epoch, the end is not known, lest it go back under a consumer (KIP-207).

A partition that is named twice gets INVALID_REQUEST, as in Kafka. Times are looked up beside the loop
(``broker/lookups.py``).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.context import RequestContext
from minikafka.broker.lookups import Lookups
from minikafka.broker.pacing import paced
from minikafka.broker.partition import Partition
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import EARLIEST, LATEST, NO_EPOCH, NO_OFFSET, NO_TIMESTAMP, Isolation, TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.storage.read_jobs import ReadJob
from minikafka.storage.timestamps import TimestampedOffset
from minikafka.wire.api import NEVER
from minikafka.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

AUTHORIZATION: Final = (Each("topics", AclOperation.DESCRIBE, ResourceType.TOPIC),)

FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5
MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -3, -4, -5, -6
FIRST_VERSION_OF: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
PARTITIONS_AT_ONCE: Final = 500

Answer = tuple[int, int, int]
"""Timestamp, offset, leader epoch; offset -1 when no record is that young."""


async def handle(
    request: ListOffsetsRequest, context: RequestContext, replicas: Replicas, lookups: Lookups
) -> ListOffsetsResponse:
    """Answer per partition, errors included."""
    named = Counter((topic.name, wanted.partition_index) for topic in request.topics for wanted in topic.partitions)
    isolation = Isolation.READ_COMMITTED if request.isolation_level else Isolation.READ_UNCOMMITTED
    answers = [ListOffsetsTopicResponse(name=topic.name) for topic in request.topics]
    by_topic = zip(answers, request.topics, strict=True)
    pairs = ((topic, wanted) for topic, asked in by_topic for wanted in asked.partitions)
    async for topic, wanted in paced(pairs, PARTITIONS_AT_ONCE, context):
        tp, epoch = TopicPartition(topic.name, wanted.partition_index), wanted.current_leader_epoch
        answer = ListOffsetsPartitionResponse(partition_index=tp.partition)
        try:
            if named[tp] > 1:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"duplicate partition {tp}")
            if wanted.timestamp < 0 and FIRST_VERSION_OF.get(wanted.timestamp, NEVER) > context.version:
                message = f"timestamp {wanted.timestamp} is not supported in version {context.version}"
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
            partition = replicas.leader_of(tp, current_leader_epoch=epoch)
            found = await _find(partition, wanted.timestamp, isolation, context, lookups)
            answer.timestamp, answer.offset, answer.leader_epoch = found
        except KafkaError as error:
            answer.error_code = _told(error.code, context.version)
        topic.partitions.append(answer)
    return ListOffsetsResponse(topics=answers)


async def _find(
    partition: Partition, timestamp: int, isolation: Isolation, context: RequestContext, lookups: Lookups
) -> Answer:
    """A follower may read everything, in any ``isolation``."""
    epoch = partition.leader_epoch
    found = await _by_time(partition, timestamp, context, lookups) if _is_time(timestamp) else None
    if partition.leader is None or partition.leader_epoch != epoch:
        raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader of the partition changed during the look-up")
    if context.is_replica:
        return _within(partition, timestamp, found, partition.log.log_end_offset)
    answer = _within(partition, timestamp, found, partition.read_limit(isolation))
    if (answer[1] == NO_OFFSET and _is_time(timestamp)) or timestamp == LATEST:
        _check_end_is_known(partition)
    return answer


def _is_time(timestamp: int) -> bool:
    return timestamp == MAX_TIMESTAMP or timestamp >= 0


async def _by_time(partition: Partition, timestamp: int, context: RequestContext, lookups: Lookups) -> Answer | None:
    def prepare() -> ReadJob[TimestampedOffset | None]:
        log = partition.log  # as it is then: it may have moved to another directory
        if timestamp == MAX_TIMESTAMP:
            return log.prepare_max_timestamp_lookup()
        return log.prepare_timestamp_lookup(timestamp)

    return await lookups.run(prepare, context.connection)


def _within(partition: Partition, timestamp: int, found: Answer | None, limit: int) -> Answer:
    """The answer to a caller who may read up to ``limit``."""
    log = partition.log
    if timestamp == LATEST:
        return NO_TIMESTAMP, limit, partition.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return NO_TIMESTAMP, log.log_start_offset, log.epoch_for_offset(log.log_start_offset)
    if found is None or found[1] >= limit:
        return NO_TIMESTAMP, NO_OFFSET, NO_EPOCH
    return found


def _told(error: ErrorCode, version: int) -> ErrorCode:
    """An older client does not know OFFSET_NOT_AVAILABLE; it asks again after LEADER_NOT_AVAILABLE, too."""
    is_new = error is ErrorCode.OFFSET_NOT_AVAILABLE and version < FIRST_VERSION_WITH_OFFSET_NOT_AVAILABLE
    return ErrorCode.LEADER_NOT_AVAILABLE if is_new else error


def _check_end_is_known(partition: Partition) -> None:
    leader = partition.leader
    if leader is not None and leader.high_watermark < leader.leader_epoch_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"{partition.topic_partition}: the high watermark has not reached the start of this leader's epoch yet",
        )
