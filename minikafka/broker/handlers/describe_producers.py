"""DescribeProducers (key 61), version 0: the producers that a partition's leader knows, and their open transactions.

``kafka-transactions.sh find-hanging`` compares these transactions with what their coordinators know (KIP-664).
"""

from __future__ import annotations

from typing import Final

from minikafka.broker.context import RequestContext
from minikafka.broker.pacing import paced
from minikafka.broker.replicas import Replicas
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.storage.producer_state import ProducerEntry
from minikafka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

PARTITIONS_AT_ONCE: Final = 1
"""A partition may have 10,000 producers, which take 10 ms."""


async def handle(
    request: DescribeProducersRequest, context: RequestContext, replicas: Replicas
) -> DescribeProducersResponse:
    """A list or an error for each partition."""
    answer = DescribeProducersResponse(topics=[TopicResponse(name=topic.name) for topic in request.topics])
    for told, topic in zip(answer.topics, request.topics, strict=True):
        async for index in paced(topic.partition_indexes, PARTITIONS_AT_ONCE, context):
            told.partitions.append(_describe(replicas, TopicPartition(topic.name, index)))
    return answer


def _describe(replicas: Replicas, tp: TopicPartition) -> PartitionResponse:
    try:
        entries = replicas.leader_of(tp).log.producers.entries
    except KafkaError as error:
        return PartitionResponse(
            partition_index=tp.partition, error_code=error.code, error_message=error.message or None
        )
    return PartitionResponse(partition_index=tp.partition, active_producers=[_state(entry) for entry in entries])


def _state(entry: ProducerEntry) -> ProducerState:
    return ProducerState(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.current_txn_first_offset,
    )
