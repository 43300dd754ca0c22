"""An image as records, and back."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.metadata.delta import replay_records
from minikafka.metadata.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ConfigResource,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from minikafka.metadata.records import (
    METADATA_VERSION,
    ConfigResourceType,
    FirstLeaderEpochRecord,
    MetadataVersionRecord,
    PartitionRecord,
    Record,
    RemoveTopicRecord,
    TopicRecord,
    decode_record,
    encode_record,
)
from minikafka.metadata.snapshot import snapshot_records
from minikafka.model import Endpoint, OffsetAndEpoch
from minikafka.sasl.scram import ScramCredential, ScramMechanism
from minikafka.security.acls import AclBinding, AclOperation, AclPermission, PatternType, ResourceType

ORDERS, AGAIN = UUID(int=10), UUID(int=11)

numbers = st.integers(0, 2**31 - 1)
offsets = st.integers(-1, 2**62)
ids = st.lists(st.integers(0, 9), max_size=4, unique=True).map(tuple)
names = st.text("abc.-_", min_size=1, max_size=5)
partitions = st.builds(
    PartitionImage,
    replicas=ids,
    isr=ids,
    leader=st.integers(-1, 9),
    leader_epoch=numbers,
    partition_epoch=numbers,
    adding_replicas=ids,
    removing_replicas=ids,
    elr=ids,
    last_known_elr=ids,
    directories=st.lists(st.uuids()).map(tuple),
    unclean_leader_epoch=st.integers(-1, 9),
    first_leader_epoch=st.integers(0, 9),
)
brokers = st.builds(
    BrokerImage,
    broker_id=numbers,
    incarnation_id=st.uuids(),
    broker_epoch=offsets,
    listeners=st.dictionaries(names, st.builds(Endpoint, names, numbers)),
    rack=st.none() | names,
    log_dirs=st.lists(st.uuids()).map(tuple),
    fenced=st.booleans(),
    in_controlled_shutdown=st.booleans(),
    previous_broker_epoch=offsets,
)
acls = st.builds(
    AclBinding,
    st.sampled_from(ResourceType),
    names,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    names,
    names,
    st.sampled_from(AclOperation),
    st.sampled_from(AclPermission),
)

credentials = st.dictionaries(
    st.sampled_from(ScramMechanism),
    st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), numbers),
    min_size=1,
)


@st.composite
def images(draw: st.DrawFn) -> MetadataImage:
    topic_names = draw(st.dictionaries(st.uuids().filter(lambda i: i != UUID(int=0)), names, max_size=4))
    topic_names = {topic_id: name for name, topic_id in {v: k for k, v in topic_names.items()}.items()}
    topics = {
        name: TopicImage(name, topic_id, dict(enumerate(draw(st.lists(partitions, max_size=3)))))
        for topic_id, name in topic_names.items()
    }
    resources = st.builds(ConfigResource, st.just(ConfigResourceType.BROKER), names)
    if topics:
        on_topics = st.builds(ConfigResource, st.just(ConfigResourceType.TOPIC), st.sampled_from(sorted(topics)))
        resources = resources | on_topics
    return MetadataImage(
        draw(offsets),
        draw(numbers),
        draw(st.text("abc", max_size=3)),
        draw(st.integers(0, METADATA_VERSION)),
        {broker.broker_id: broker for broker in draw(st.lists(brokers, max_size=3))},
        topics,
        topic_names,
        draw(st.dictionaries(resources, st.dictionaries(names, names, min_size=1, max_size=2), max_size=3)),
        draw(st.integers(0, 2**60)),
        first_leader_epoch=draw(numbers),
        scram_credentials=draw(st.dictionaries(names, credentials, max_size=2)),
        acls={acl.acl_id: acl for acl in draw(st.lists(acls, max_size=3))},
    )


@given(images())
def test_there_and_back(image: MetadataImage) -> None:
    values = [encode_record(record) for record in snapshot_records(image)]
    assert replay_records(EMPTY_IMAGE, map(decode_record, values), OffsetAndEpoch(image.offset, image.epoch)) == image


def test_the_empty_image_has_no_records() -> None:
    assert list(snapshot_records(EMPTY_IMAGE)) == []


def test_equal_images_have_equal_snapshots(small: MetadataImage) -> None:
    again = replay_records(EMPTY_IMAGE, reversed(list(snapshot_records(small))[:4]), OffsetAndEpoch(0, 0))
    assert list(snapshot_records(again)) == list(snapshot_records(small))[:4]


@pytest.mark.parametrize("taken", range(5))
def test_nodes_agree_after_an_upgrade_wherever_their_older_code_took_a_snapshot(taken: int) -> None:
    """Version 6 knew nothing of the leader epochs of deleted partitions: whoever replays them again learns no more."""
    old: list[Record] = [
        MetadataVersionRecord(6),
        TopicRecord("orders", ORDERS),
        PartitionRecord(ORDERS, 0, (1,), (1,), 1, leader_epoch=4),
        RemoveTopicRecord(ORDERS),
    ]
    new: list[Record] = [
        MetadataVersionRecord(METADATA_VERSION),
        TopicRecord("orders", AGAIN),
        PartitionRecord(AGAIN, 0, (1,), (1,), 1, leader_epoch=1),
        RemoveTopicRecord(AGAIN),
    ]
    image = replay_records(EMPTY_IMAGE, old[:taken], OffsetAndEpoch(taken, 1))
    snapshot = [record for record in snapshot_records(image) if not isinstance(record, FirstLeaderEpochRecord)]
    after = replay_records(EMPTY_IMAGE, [*snapshot, *old[taken:], *new], OffsetAndEpoch(9, 1))
    assert after == replay_records(EMPTY_IMAGE, old + new, OffsetAndEpoch(9, 1))
    assert after.first_leader_epoch == 2
