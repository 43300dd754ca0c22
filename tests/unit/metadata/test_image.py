"""What is asked of an image."""

from __future__ import annotations

from uuid import UUID

from minikafka.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from minikafka.metadata.records import ConfigResourceType
from minikafka.model import TopicPartition


def test_a_topic_is_found_by_name_and_by_id(small: MetadataImage, orders: UUID) -> None:
    topic = small.topic("orders")
    assert topic is not None
    assert small.topic_by_id(orders) is topic
    assert list(small.topics()) == [topic]
    assert small.topic("other") is None
    assert small.topic_by_id(UUID(int=99)) is None


def test_a_partition_is_found_by_topic_and_index(small: MetadataImage) -> None:
    partition = small.partition(TopicPartition("orders", 1))
    assert partition is not None
    assert (partition.leader, partition.preferred_leader, partition.is_offline) == (1, 2, False)
    assert small.partition(TopicPartition("orders", 2)) is None
    assert small.partition(TopicPartition("other", 0)) is None
    assert [(topic.name, index) for topic, index, _ in small.partitions()] == [("orders", 0), ("orders", 1)]


def test_a_fenced_or_unknown_broker_is_not_live(small: MetadataImage) -> None:
    assert [broker.broker_id for broker in small.live_brokers()] == [1]
    assert (small.is_live(1), small.is_live(2), small.is_live(3)) == (True, False, False)
    assert small.broker(2) is small.brokers[2]
    assert small.broker(-1) is None


def test_settings_of_a_resource_without_any_are_empty(small: MetadataImage) -> None:
    assert small.topic_overrides("orders") == {"retention.ms": "5"}
    assert small.topic_overrides("other") == {}
    assert small.config_of(ConfigResource(ConfigResourceType.BROKER, "")) == {}


def test_the_empty_image() -> None:
    assert EMPTY_IMAGE.offset == -1
    assert not EMPTY_IMAGE.topics()
    assert EMPTY_IMAGE.live_brokers() == []
