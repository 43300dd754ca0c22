"""What librdkafka, through confluent-kafka, reads from the cluster and writes to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from minikafka.chaos.local_cluster import LocalCluster

PARTITIONS: Final = 3


def create_topic(cluster: LocalCluster, topic: str) -> str:
    """A topic with three partitions; its name."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result()
    return topic


def read_by_librdkafka(cluster: LocalCluster, topic: str, count: int) -> list[Any]:
    """All messages of the topic by partition and offset."""
    return sorted(_polled(cluster, topic, count), key=lambda message: (message.partition(), message.offset()))


def _polled(cluster: LocalCluster, topic: str, count: int) -> Iterator[Any]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        for _ in range(count):
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            yield message
        assert consumer.poll(0.2) is None, "more came than was written"
    finally:
        consumer.close()


def write_by_librdkafka(cluster: LocalCluster, topic: str, count: int, **settings: str) -> None:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers} | named)
    for number in range(count):
        key = None if number % 7 == 0 else f"k{number}"
        value = None if number % 11 == 0 else f"v{number}"
        headers = [("n", str(number).encode()), ("null", None)] if number % 2 else None
        producer.produce(topic, value, key, partition=number % PARTITIONS, headers=headers)
    assert producer.flush(60) == 0


def end_offsets(cluster: LocalCluster, topic: str) -> list[int]:
    """Where each partition ends, by its high watermark; nothing while the broker asked has not heard of the topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none"})
    try:
        return [consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=30)[1] for p in range(PARTITIONS)]
    except KafkaException as error:
        if error.args[0].code() != KafkaError._UNKNOWN_PARTITION:
            raise
        return []
    finally:
        consumer.close()


class Transactions:
    """A producer that writes in transactions, the same values to every partition or to some."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": f"writes-{topic}"}
        self._topic = topic
        self._producer = Producer(settings | {"linger.ms": 0})
        self._producer.init_transactions(60)

    def begin(self, values: Sequence[str], partitions: Sequence[int] = range(PARTITIONS)) -> None:
        """Write, and leave the transaction open."""
        self._producer.begin_transaction()
        for value in values:
            for partition in partitions:
                self._producer.produce(self._topic, value, partition=partition)
        assert self._producer.flush(60) == 0

    def commit(self) -> None:
        """End it."""
        self._producer.commit_transaction(60)

    def abort(self) -> None:
        """End it."""
        self._producer.abort_transaction(60)
