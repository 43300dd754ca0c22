"""A librdkafka consumer that reads a topic once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.clusters import of_librdkafka
from minikafka.chaos.local_cluster import LocalCluster


def read(cluster: LocalCluster, topic: str, partitions: int, records: int) -> None:
    """That many records, from the beginning."""
    read_with(of_librdkafka(cluster), topic, partitions, records)


def read_with(connecting: Mapping[str, Any], topic: str, partitions: int, records: int) -> None:
    """The same, by who connects so."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({**connecting, "group.id": "none", "fetch.message.max.bytes": 1 << 20, "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    left = records
    while left > 0:
        # It waits for as many as are asked for.
        left -= sum(message.error() is None for message in consumer.consume(min(left, 10_000), 1.0))
    consumer.close()
