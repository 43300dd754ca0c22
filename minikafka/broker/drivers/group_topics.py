"""The topics of the metadata, as the group coordinators look at them."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from minikafka.groups.consumer.topics import Racks, Topic
from minikafka.metadata.delta import MetadataDelta
from minikafka.metadata.image import MetadataImage, TopicImage


class GroupTopics:
    """Look-ups in the newest image."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image

    def named(self, name: str) -> Topic | None:
        """The topic of this name."""
        image = self._image()
        topic = image.topic(name)
        return None if topic is None else _topic(image, topic)

    def with_id(self, topic_id: UUID) -> Topic | None:
        """The topic of this id."""
        image = self._image()
        topic = image.topic_by_id(topic_id)
        return None if topic is None else _topic(image, topic)


def _topic(image: MetadataImage, topic: TopicImage) -> Topic:
    return Topic(topic.topic_id, topic.name, len(topic.partitions), _racks(image, topic))


def _racks(image: MetadataImage, topic: TopicImage) -> Racks:
    by_broker = {broker.broker_id: broker.rack for broker in image.brokers.values() if broker.rack is not None}
    if not by_broker:
        return ()
    return tuple(
        frozenset(by_broker[replica] for replica in topic.partitions[index].replicas if replica in by_broker)
        for index in range(len(topic.partitions))
    )


def concerns_groups(delta: MetadataDelta) -> bool:
    """True when topics came, went, or have other partitions, replicas or racks. Other leaders do not matter."""
    before, after = delta.before, delta.after
    if delta.created_topics or delta.deleted_topics:
        return True
    if any(_rack(before, broker_id) != _rack(after, broker_id) for broker_id in delta.brokers):
        return True
    return any(
        (old := before.partition(at)) is None or (new := after.partition(at)) is None or old.replicas != new.replicas
        for at in delta.partitions
    )


def _rack(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.broker(broker_id)
    return None if broker is None else broker.rack
