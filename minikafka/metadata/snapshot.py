"""An image as records: the content of a snapshot of the metadata log."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from minikafka.metadata.image import BROKER_FIELDS, PARTITION_FIELDS, MetadataImage
from minikafka.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ClusterIdRecord,
    ConfigRecord,
    FeatureLevelRecord,
    FirstLeaderEpochRecord,
    MetadataVersionRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from minikafka.model import NO_EPOCH, NO_NODE


def snapshot_records(image: MetadataImage) -> Iterator[Record]:
    """Records whose replay on an empty image gives this one, in a fixed order: equal images have equal snapshots."""
    if image.metadata_version:
        yield MetadataVersionRecord(image.metadata_version)
    if image.cluster_id:
        yield ClusterIdRecord(image.cluster_id)
    for name, level in sorted(image.features.items()):
        yield FeatureLevelRecord(name, level)
    if image.next_producer_id:
        yield ProducerIdsRecord(NO_NODE, NO_EPOCH, image.next_producer_id)
    if image.first_leader_epoch:
        yield FirstLeaderEpochRecord(image.first_leader_epoch)
    for _, broker in sorted(image.brokers.items()):
        yield RegisterBrokerRecord(*BROKER_FIELDS(broker))
    for _, topic in sorted(image.topics_by_name.items()):
        yield TopicRecord(topic.name, topic.topic_id)
        for index, partition in sorted(topic.partitions.items()):
            yield PartitionRecord(topic.topic_id, index, *PARTITION_FIELDS(partition))
    for resource, values in sorted(image.configs.items()):
        for name, value in sorted(values.items()):
            yield ConfigRecord(resource.resource_type, resource.name, name, value)
    for entity, quotas in sorted(image.client_quotas.items(), key=str):
        for key, quota in sorted(quotas.items()):
            yield ClientQuotaRecord(entity, key, quota)
    for user, credentials in sorted(image.scram_credentials.items()):
        for mechanism, credential in sorted(credentials.items()):
            yield UserScramCredentialRecord(
                user,
                mechanism,
                credential.salt,
                credential.stored_key,
                credential.server_key,
                credential.iterations,
            )
    for acl_id in sorted(image.acls, key=attrgetter("int")):
        yield AccessControlEntryRecord.of(image.acls[acl_id])
