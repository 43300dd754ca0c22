"""Records applied to images: what becomes of each, what is shared, and what the delta names."""

from __future__ import annotations

from uuid import UUID

import pytest
from deltas import apply_records, difference, is_empty

from minikafka.metadata.codec import MalformedError
from minikafka.metadata.delta import MetadataDelta, replay_records
from minikafka.metadata.image import EMPTY_IMAGE, ConfigResource, MetadataImage
from minikafka.metadata.records import (
    METADATA_VERSION,
    AccessControlEntryRecord,
    BrokerChangeRecord,
    ClusterIdRecord,
    ConfigRecord,
    ConfigResourceType,
    MetadataVersionRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from minikafka.model import OffsetAndEpoch, TopicPartition
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
ACL = AclBinding(
    ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:a", "*", AclOperation.READ, AclPermission.ALLOW
)


def applied(image: MetadataImage, *records: Record) -> tuple[MetadataImage, MetadataDelta]:
    after, delta = apply_records(image, records, OffsetAndEpoch(image.offset + len(records), 1))
    by_comparison = difference(image, after)
    assert (delta.brokers, delta.created_topics, delta.deleted_topics, delta.partitions, delta.configs) == (
        by_comparison.brokers,
        by_comparison.created_topics,
        by_comparison.deleted_topics,
        by_comparison.partitions,
        by_comparison.configs,
    )
    assert (delta.before, delta.after) == (image, after)
    assert replay_records(image, records, OffsetAndEpoch(after.offset, after.epoch)) == after
    return after, delta


def test_no_records_move_the_offset_alone(small: MetadataImage) -> None:
    after, delta = apply_records(small, [], OffsetAndEpoch(20, 3))
    assert (after.offset, after.epoch) == (20, 3)
    assert is_empty(delta)


def test_the_cluster(small: MetadataImage) -> None:
    after, delta = applied(small, MetadataVersionRecord(2), ClusterIdRecord("d"), ProducerIdsRecord(1, 2, 1000))
    assert (after.metadata_version, after.cluster_id, after.next_producer_id) == (2, "d", 1000)
    assert is_empty(delta)


def test_brokers_come_change_and_go(small: MetadataImage) -> None:
    registration = RegisterBrokerRecord(3, UUID(int=3), 9, {})
    after, delta = applied(small, registration, BrokerChangeRecord(2, 3, fenced=False), UnregisterBrokerRecord(1, 2))
    assert delta.brokers == {1, 2, 3}
    assert sorted(after.brokers) == [2, 3]
    assert after.is_live(2)
    assert after.brokers[3].fenced
    after, delta = applied(after, BrokerChangeRecord(2, 3, in_controlled_shutdown=True))
    assert (after.brokers[2].fenced, after.brokers[2].in_controlled_shutdown) == (False, True)
    assert small.brokers[2].fenced, "the image before stays as it was"


def test_a_partition_change_is_a_new_partition_epoch_and_a_leader_a_new_leader_epoch(
    small: MetadataImage, orders: UUID
) -> None:
    after, delta = applied(small, PartitionChangeRecord(orders, 1, isr=(1, 2)))
    partition = after.topics_by_name["orders"].partitions[1]
    assert (partition.isr, partition.leader, partition.leader_epoch, partition.partition_epoch) == ((1, 2), 1, 3, 5)
    assert delta.partitions == {TopicPartition("orders", 1)}
    after, _ = applied(after, PartitionChangeRecord(orders, 1, leader=1))
    partition = after.topics_by_name["orders"].partitions[1]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (1, 4, 6)
    after, _ = applied(
        after,
        PartitionChangeRecord(
            orders, 1, replicas=(3, 1), adding_replicas=(3,), removing_replicas=(2,), elr=(2,), last_known_elr=(1,)
        ),
    )
    partition = after.topics_by_name["orders"].partitions[1]
    assert (partition.replicas, partition.adding_replicas, partition.removing_replicas) == ((3, 1), (3,), (2,))
    assert (partition.elr, partition.last_known_elr) == ((2,), (1,))


def test_topics_come_and_go_with_their_settings(small: MetadataImage, orders: UUID) -> None:
    other = UUID(int=11)
    after, delta = applied(small, TopicRecord("other", other), PartitionRecord(other, 0, (1,), (1,), 1))
    assert delta.created_topics == {"other"}
    assert delta.partitions == {TopicPartition("other", 0)}
    after, delta = applied(after, RemoveTopicRecord(orders))
    assert [topic.topic_id for topic in delta.deleted_topics] == [orders]
    assert not delta.partitions
    assert after.topic("orders") is None
    assert after.topic_by_id(orders) is None
    assert after.topic_overrides("orders") == {}
    assert small.topic_overrides("orders")


def test_new_partitions_begin_above_the_leader_epochs_of_all_deleted_ones(small: MetadataImage, orders: UUID) -> None:
    other = UUID(int=11)
    small, _ = applied(small, MetadataVersionRecord(METADATA_VERSION))
    first = [small.first_leader_epoch]
    after = small
    for record in (
        PartitionChangeRecord(orders, 1, leader=1),
        RemoveTopicRecord(orders),
        TopicRecord("other", other),
        PartitionRecord(other, 0, (1,), (1,), 1, leader_epoch=2),
        RemoveTopicRecord(other),
    ):
        after, _ = applied(after, record)
        first.append(after.first_leader_epoch)
    assert first == [0, 0, 5, 5, 5, 5]
    after, _ = applied(small, TopicRecord("other", other), RemoveTopicRecord(other))
    assert after.first_leader_epoch == 0


def test_a_topic_deleted_and_created_in_one_batch_is_both(small: MetadataImage, orders: UUID) -> None:
    again = UUID(int=12)
    after, delta = applied(
        small,
        PartitionChangeRecord(orders, 0, isr=(1, 2)),
        RemoveTopicRecord(orders),
        TopicRecord("orders", again),
        PartitionRecord(again, 0, (2,), (2,), 2),
    )
    assert delta.created_topics == {"orders"}
    assert [topic.topic_id for topic in delta.deleted_topics] == [orders]
    assert delta.deleted_topics[0].partitions.keys() == {0, 1}
    assert delta.partitions == {TopicPartition("orders", 0)}
    assert after.topics_by_name["orders"].partitions.keys() == {0}


def test_a_topic_that_came_and_went_within_a_batch_was_never_there(small: MetadataImage) -> None:
    other = UUID(int=11)
    records = [TopicRecord("x", other), ConfigRecord(TOPIC, "x", "a", "1"), RemoveTopicRecord(other)]
    after, delta = applied(small, *records)
    assert is_empty(delta)
    assert after.topics_by_name == small.topics_by_name
    assert after.configs == small.configs


def test_changed_and_deleted_settings_are_in_the_delta(small: MetadataImage) -> None:
    after, delta = applied(
        small,
        ConfigRecord(TOPIC, "orders", "segment.bytes", "9"),
        ConfigRecord(TOPIC, "orders", "retention.ms", None),
        ConfigRecord(BROKER, "", "log.roll.ms", "1"),
    )
    assert after.topic_overrides("orders") == {"segment.bytes": "9"}
    assert delta.configs == {ConfigResource(TOPIC, "orders"), ConfigResource(BROKER, "")}
    after, delta = applied(after, ConfigRecord(BROKER, "", "log.roll.ms", None), ConfigRecord(BROKER, "", "x", None))
    assert ConfigResource(BROKER, "") not in after.configs
    assert delta.configs == {ConfigResource(BROKER, "")}


def test_what_did_not_change_is_shared(small: MetadataImage, orders: UUID) -> None:
    other = UUID(int=11)
    before, _ = applied(small, TopicRecord("other", other), PartitionRecord(other, 0, (1,), (1,), 1))
    after, _ = applied(before, PartitionChangeRecord(orders, 0, isr=(1, 2)))
    assert after.brokers is before.brokers
    assert after.configs is before.configs
    assert after.topic_names is before.topic_names
    assert after.topics_by_name["other"] is before.topics_by_name["other"]
    assert after.topics_by_name["orders"].partitions[1] is before.topics_by_name["orders"].partitions[1]
    assert before.topics_by_name["orders"].partitions[0].isr == (1,)


@pytest.mark.parametrize(
    "record",
    [
        BrokerChangeRecord(9, 2, fenced=True),
        BrokerChangeRecord(1, 1, fenced=True),
        UnregisterBrokerRecord(1, 1),
        TopicRecord("orders", UUID(int=11)),
        TopicRecord("other", UUID(int=10)),
        RemoveTopicRecord(UUID(int=99)),
        PartitionRecord(UUID(int=99), 0, (1,), (1,), 1),
        PartitionChangeRecord(UUID(int=10), 7, leader=1),
    ],
)
def test_a_record_that_does_not_fit_is_damage(small: MetadataImage, record: Record) -> None:
    with pytest.raises(MalformedError):
        applied(small, record)


def test_the_difference_of_a_snapshot_names_everything_new(small: MetadataImage) -> None:
    delta = difference(EMPTY_IMAGE, small)
    assert delta.brokers == {1, 2}
    assert delta.created_topics == {"orders"}
    assert delta.partitions == {TopicPartition("orders", 0), TopicPartition("orders", 1)}
    assert delta.configs == {ConfigResource(TOPIC, "orders")}
    assert is_empty(difference(small, small))


def test_acls_come_and_go(small: MetadataImage) -> None:
    after, delta = applied(small, AccessControlEntryRecord.of(ACL), AccessControlEntryRecord.of(ACL))
    assert after.acls == {ACL.acl_id: ACL}
    assert is_empty(delta), "whoever decides by them compares the images"
    gone, _ = applied(after, RemoveAccessControlEntryRecord(ACL.acl_id))
    assert gone.acls == {}
    assert after.acls
    with pytest.raises(MalformedError, match="does not exist"):
        applied(gone, RemoveAccessControlEntryRecord(ACL.acl_id))
