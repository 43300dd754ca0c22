"""Java's own Kafka clients, which Spark's connector is made of, against the cluster: admin, producer, consumer.

They run in Spark's JVM, where the connector has brought them, and are driven from here. ``make test`` has the same
clients in a program of their own (tests/compat).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession

from minikafka.chaos.local_cluster import LocalCluster

pytestmark = [pytest.mark.usefixtures("connector"), pytest.mark.long]
STRINGS = "org.apache.kafka.common.serialization.String"


class Java:
    """Kafka's clients of Spark's JVM."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str) -> None:
        self.jvm: Any = spark._jvm
        self.kafka = self.jvm.org.apache.kafka
        self.bootstrap_servers = bootstrap_servers

    def properties(self, **settings: str) -> Any:
        properties = self.jvm.java.util.HashMap()
        properties.put("bootstrap.servers", self.bootstrap_servers)
        for name, value in settings.items():
            properties.put(name.replace("_", "."), value)
        return properties

    @contextmanager
    def admin(self) -> Iterator[Any]:
        with _closed(self.kafka.clients.admin.AdminClient.create(self.properties())) as admin:
            yield admin

    @contextmanager
    def producer(self, **settings: str) -> Iterator[Any]:
        coding = {"key_serializer": f"{STRINGS}Serializer", "value_serializer": f"{STRINGS}Serializer"}
        with _closed(self.kafka.clients.producer.KafkaProducer(self.properties(**coding, **settings))) as producer:
            yield producer

    @contextmanager
    def consumer(self, **settings: str) -> Iterator[Any]:
        coding = {"key_deserializer": f"{STRINGS}Deserializer", "value_deserializer": f"{STRINGS}Deserializer"}
        coding |= {"auto_offset_reset": "earliest", "enable_auto_commit": "false"}
        with _closed(self.kafka.clients.consumer.KafkaConsumer(self.properties(**coding, **settings))) as consumer:
            yield consumer

    def record(self, topic: str, key: str | None, value: str | None) -> Any:
        return self.kafka.clients.producer.ProducerRecord(topic, key, value)

    def list(self, *items: Any) -> Any:
        made = self.jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made

    def map(self, items: dict[Any, Any]) -> Any:
        made = self.jvm.java.util.HashMap()
        for key, value in items.items():
            made.put(key, value)
        return made

    def create_topic(self, topic: str, partitions: int = 3) -> None:
        with self.admin() as admin:
            new = self.kafka.clients.admin.NewTopic(topic, partitions, 3)
            admin.createTopics(self.list(new)).all().get()

    def read(self, consumer: Any, count: int, polls: int = 100) -> list[tuple[str, str, int]]:
        """``count`` records as (key, value, partition), at least as many if more came at once."""
        seen: list[tuple[str, str, int]] = []
        for _ in range(polls):
            polled = consumer.poll(self.jvm.java.time.Duration.ofMillis(500)).iterator()
            while polled.hasNext():
                record = polled.next()
                seen.append((record.key(), record.value(), record.partition()))
            if len(seen) >= count:
                return seen
        raise AssertionError(f"{len(seen)} of {count} records came")


@contextmanager
def _closed(client: Any) -> Iterator[Any]:
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def java(spark: SparkSession, cluster: LocalCluster) -> Java:
    return Java(spark, cluster.bootstrap_servers)


def test_admin(java: Java, cluster: LocalCluster, topic: str) -> None:
    java.create_topic(topic, 2)
    admin_api = java.kafka.clients.admin
    tp = java.kafka.common.TopicPartition(topic, 0)
    with java.admin() as admin:
        assert admin.describeCluster().clusterId().get() == cluster.layout.cluster_id
        assert admin.describeCluster().nodes().get().size() == 3
        assert admin.listTopics().names().get().contains(topic)
        described = admin.describeTopics(java.list(topic)).allTopicNames().get()[topic]
        assert [len(partition.isr()) for partition in described.partitions()] == [3, 3]
        resource = java.kafka.common.config.ConfigResource(
            getattr(java.kafka.common.config, "ConfigResource$Type").TOPIC, topic
        )
        configs = admin.describeConfigs(java.list(resource)).all().get()[resource]
        assert configs.get("cleanup.policy").value() == "delete"
        spec = admin_api.OffsetSpec
        for asked in (spec.earliest(), spec.latest(), spec.forTimestamp(0), spec.maxTimestamp()):
            assert admin.listOffsets(java.map({tp: asked})).all().get()[tp].offset() in (0, -1)
        more = admin_api.NewPartitions.increaseTo(4)
        admin.createPartitions(java.map({topic: more})).all().get()
        assert admin.listConsumerGroups().all().get() is not None
        assert admin.describeLogDirs(java.list(1)).allDescriptions().get() is not None
        admin.deleteTopics(java.list(topic)).all().get()


def test_idempotent_producer(java: Java, topic: str) -> None:
    java.create_topic(topic, 1)
    with java.producer(acks="all", enable_idempotence="true", linger_ms="5", compression_type="zstd") as producer:
        sent = [producer.send(java.record(topic, f"k{number}", f"v{number}")) for number in range(100)]
        producer.flush()
        assert [delivery.get().offset() for delivery in sent] == list(range(100))
    with java.consumer(isolation_level="read_committed") as consumer:
        consumer.assign(java.list(java.kafka.common.TopicPartition(topic, 0)))
        assert [value for _, value, _ in java.read(consumer, 100)] == [f"v{number}" for number in range(100)]


def test_consumer_group(java: Java, topic: str) -> None:
    java.create_topic(topic)
    with java.producer(acks="all") as producer:
        for number in range(90):
            producer.send(java.record(topic, f"k{number}", f"v{number}"))
    name = f"group-of-{topic}"
    with java.consumer(group_id=name) as consumer:
        consumer.subscribe(java.list(topic))
        assert {value for _, value, _ in java.read(consumer, 90)} == {f"v{number}" for number in range(90)}
        consumer.commitSync()
    with java.admin() as admin:
        offsets = admin.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get()
        assert sum(offsets[tp].offset() for tp in offsets) == 90
        assert admin.describeConsumerGroups(java.list(name)).all().get()[name].groupId() == name
        admin.deleteConsumerGroups(java.list(name)).all().get()


def test_transactions(java: Java, topic: str) -> None:
    java.create_topic(topic)
    with java.producer(transactional_id=f"of-{topic}") as producer:
        producer.initTransactions()
        for key, ends in [("a", producer.commitTransaction), ("b", producer.abortTransaction)] * 3:
            producer.beginTransaction()
            producer.send(java.record(topic, key, "x")).get()
            ends()
    with java.consumer(group_id=f"of-{topic}", isolation_level="read_committed") as consumer:
        consumer.subscribe(java.list(topic))
        assert [key for key, _value, _partition in java.read(consumer, 3)] == ["a"] * 3
