"""An image as the records that make it: what a snapshot of the metadata log holds."""

from __future__ import annotations

from collections.abc import Iterator

from minikafka.metadata.image import BrokerImage, MetadataImage, TopicImage
from minikafka.metadata.records import (
    ClusterIdRecord,
    ConfigRecord,
    MetadataVersionRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    TopicRecord,
)
from minikafka.model import NO_EPOCH, NO_NODE


def snapshot_records(image: MetadataImage) -> Iterator[Record]:
    """Records that, replayed on an empty image, give this one; in a fixed order, so that equal images give equal
    snapshots."""
    if image.metadata_version:
        yield MetadataVersionRecord(image.metadata_version)
    if image.cluster_id:
        yield ClusterIdRecord(image.cluster_id)
    if image.next_producer_id:
        yield ProducerIdsRecord(NO_NODE, NO_EPOCH, image.next_producer_id)
    for _, broker in sorted(image.brokers.items()):
        yield _broker_record(broker)
    for _, topic in sorted(image.topics_by_name.items()):
        yield from _topic_records(topic)
    for resource, values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(resource.resource_type, resource.name, name, value)


def _broker_record(broker: BrokerImage) -> Record:
    return RegisterBrokerRecord(
        broker.broker_id,
        broker.incarnation_id,
        broker.broker_epoch,
        broker.listeners,
        broker.rack,
        broker.log_dirs,
        broker.fenced,
        broker.in_controlled_shutdown,
        broker.previous_broker_epoch,
    )


def _topic_records(topic: TopicImage) -> Iterator[Record]:
    yield TopicRecord(topic.name, topic.topic_id)
    for index, partition in sorted(topic.partitions.items()):
        yield PartitionRecord(
            topic.topic_id,
            index,
            partition.replicas,
            partition.isr,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.adding_replicas,
            partition.removing_replicas,
            partition.elr,
            partition.last_known_elr,
            partition.directories,
            partition.unclean_leader_epoch,
        )
