"""DescribeProducers (key 61), version 0: the producers that a replica knows, and their open transactions.

Tools ask the leader, or a broker of their choice, whose replica may be behind. ``find-hanging`` compares these
transactions with what their coordinators know (KIP-664).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from minikafka.broker.authorization import Each
from minikafka.broker.context import RequestContext
from minikafka.broker.long_answers import LongAnswers
from minikafka.broker.replicas import Replicas
from minikafka.errors import KafkaError
from minikafka.model import TopicPartition
from minikafka.security.acls import AclOperation, ResourceType
from minikafka.storage.producer_state import ProducerEntry
from minikafka.wire.codec import encode_around
from minikafka.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

AUTHORIZATION: Final = (Each("topics", AclOperation.READ, ResourceType.TOPIC),)

PARTITION_ROWS: Final = 2
"""A partition costs as much as these, beside its producers."""


async def handle(
    request: DescribeProducersRequest, context: RequestContext, replicas: Replicas, long_answers: LongAnswers
) -> None:
    """A list or an error for each partition, once."""
    wanted: defaultdict[str, dict[int, None]] = defaultdict(dict)
    for topic in request.topics:
        wanted[topic.name].update(dict.fromkeys(topic.partition_indexes))
    topics: list[bytes] = []
    async with long_answers.prepare(context) as answer:
        for name, indexes in wanted.items():
            partitions: list[bytes] = []
            for index in indexes:
                described = _describe(replicas, TopicPartition(name, index))
                rows = PARTITION_ROWS + len(described.active_producers)
                partitions.append(await answer.encoded(described, rows))
            topics.append(encode_around(TopicResponse(name=name), context.version, "partitions", partitions))
        context.send_around(DescribeProducersResponse(), "topics", topics)


def _describe(replicas: Replicas, tp: TopicPartition) -> PartitionResponse:
    try:
        entries = replicas.replica_of(tp).log.producers.entries
    except KafkaError as error:
        return PartitionResponse(partition_index=tp.partition, error_code=error.code, error_message=error.told)
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
