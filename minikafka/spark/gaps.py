"""Finds ranges of offsets without a record. Compaction makes them, and a reader would wait for their records in vain.

An empty fetch response means "not yet" or "never": the last offsets of a log may have lost their records. One more
fetch from the leader tells the two apart.
"""

from __future__ import annotations

import random
from typing import Final

from minikafka.client.connections import Connections
from minikafka.client.consuming.fetcher import MAX_VERSION_BY_NAME
from minikafka.errors import KafkaError
from minikafka.model import Isolation, TopicPartition
from minikafka.spark.options import ClientSettings
from minikafka.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData

ANSWER_TIMEOUT_S: Final = 2.0


async def holds_none(settings: ClientSettings, tp: TopicPartition, start: int, end: int) -> bool:
    """True when the range from ``start`` to before ``end`` is readable and has no record.

    False when it has a record, and when the leader does not answer in time.
    """
    connections = Connections(
        settings.bootstrap_servers,
        client_id=settings.client_id,
        rng=random.Random(),
        request_timeout_s=ANSWER_TIMEOUT_S,
    )
    try:
        cluster = await connections.refresh([tp.topic])
        leader = await connections.to_node(cluster.leader_of(tp))
        request = _one_fetch(settings, tp, start)
        answer = await leader.call(request, FetchResponse, timeout_s=ANSWER_TIMEOUT_S, at_most=MAX_VERSION_BY_NAME)
    except KafkaError:
        return False
    finally:
        await connections.close()
    found = next((data for topic in answer.responses for data in topic.partitions), None)
    return found is not None and _is_empty(found, settings.isolation_level, end)


def _one_fetch(settings: ClientSettings, tp: TopicPartition, start: int) -> FetchRequest:
    partition = FetchPartition(
        partition=tp.partition, fetch_offset=start, partition_max_bytes=settings.max_partition_fetch_bytes
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=settings.fetch_max_bytes,
        isolation_level=settings.isolation_level,
        topics=[FetchTopic(topic=tp.topic, partitions=[partition])],
    )


def _is_empty(data: PartitionData, isolation: Isolation, end: int) -> bool:
    readable = data.last_stable_offset if isolation is Isolation.READ_COMMITTED else data.high_watermark
    return not data.error_code and not data.records and readable >= end
