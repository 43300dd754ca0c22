"""DeleteRecords (key 21), versions 0-2: a partition begins at a given offset from now on (KIP-107).

Answered with the low watermark: from which offset on every live replica begins. Its leader knows of a follower's from
the follower's next fetches. Until then the answer waits and looks again: deletions are rare, and the way of records has
nothing to wake it with. Whole segments below go with retention's next look.

A node writes its log starts every ``replica.high.watermark.checkpoint.interval.ms`` (5 s). If all replicas are killed,
deletions of the last seconds may be undone, as in Apache Kafka (there of the last minute).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.context import RequestContext
from minikafka.broker.drivers.metadata import Metadata
from minikafka.broker.handlers.admin import LONGEST_TIMEOUT_S
from minikafka.broker.pacing import paced
from minikafka.broker.replicas import Replicas
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import INTERNAL_TOPICS, NO_OFFSET, TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

AUTHORIZATION: Final = (Each("topics", AclOperation.DELETE, ResourceType.TOPIC),)

LOOK_INTERVAL_S: Final = 0.05
PARTITIONS_AT_ONCE: Final = 100
HIGH_WATERMARK: Final = -1
ONLY_COMPACTED: Final = frozenset({"compact"})

Waiting = list[tuple[TopicPartition, int, DeleteRecordsPartitionResult]]
"""Where a log begins now, and the answer that waits for the others to begin there too."""


async def handle(
    request: DeleteRecordsRequest, context: RequestContext, replicas: Replicas, metadata: Metadata
) -> DeleteRecordsResponse:
    """A result for each partition; what was deleted stays so when a follower was not heard in time."""
    named = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    answer = DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name=topic.name) for topic in request.topics])
    waiting: Waiting = []
    for told, topic in zip(answer.topics, request.topics, strict=True):
        async for wanted in paced(topic.partitions, PARTITIONS_AT_ONCE, context):
            tp = TopicPartition(topic.name, wanted.partition_index)
            result = DeleteRecordsPartitionResult(partition_index=tp.partition, low_watermark=NO_OFFSET)
            told.partitions.append(result)
            try:
                if named[tp] > 1:
                    raise KafkaError(ErrorCode.INVALID_REQUEST, f"duplicate partition {tp}")
                waiting.append((tp, _delete(replicas, tp, wanted.offset), result))
            except KafkaError as error:
                result.error_code = error.code
    timeout_s = min(max(request.timeout_ms / 1000, 0), LONGEST_TIMEOUT_S)
    await _wait(waiting, replicas, metadata, context, timeout_s)
    return answer


def _delete(replicas: Replicas, tp: TopicPartition, offset: int) -> int:
    """Where the log begins now."""
    partition = replicas.leader_of(tp)
    if tp.topic in INTERNAL_TOPICS or partition.log.config.cleanup_policy == ONLY_COMPACTED:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"cleanup.policy of topic {tp.topic!r} does not allow deletion")
    high_watermark = partition.replica.high_watermark
    begin = partition.log.delete_records(high_watermark if offset == HIGH_WATERMARK else offset, high_watermark)
    replicas.waiting.note_changed(tp)
    return begin


async def _wait(
    waiting: Waiting, replicas: Replicas, metadata: Metadata, context: RequestContext, timeout_s: float
) -> None:
    """Until the low watermarks have come to the offsets, or the time is up."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + timeout_s
    while True:
        live = {broker.broker_id for broker in metadata.image.live_brokers()}
        portions = paced(waiting, PARTITIONS_AT_ONCE, context)
        waiting = [one async for one in portions if not _is_settled(*one, replicas, live)]
        if not waiting or loop.time() >= until_s:
            break
        await asyncio.sleep(LOOK_INTERVAL_S)
    for _, _, result in waiting:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT


def _is_settled(
    tp: TopicPartition, offset: int, result: DeleteRecordsPartitionResult, replicas: Replicas, live: set[int]
) -> bool:
    try:
        result.low_watermark = replicas.leader_of(tp).replica.low_watermark(live)
    except KafkaError as error:  # led by another node now, which may not know of the deletion
        result.low_watermark, result.error_code = NO_OFFSET, error.code
        return True
    return result.low_watermark >= offset
