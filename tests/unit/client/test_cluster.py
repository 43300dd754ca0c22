"""The picture of a cluster, and how a newer answer changes it."""

from __future__ import annotations

from uuid import UUID

import pytest

from minikafka.client.cluster import Cluster, PartitionView, TopicView
from minikafka.errors import ErrorCode
from minikafka.model import Endpoint, TopicPartition
from minikafka.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

WHERE = TopicPartition("t", 0)


def picture(
    leader: int = 1, epoch: int = 5, topic_id: int = 7, name: str = "t", error: ErrorCode = ErrorCode.NONE
) -> Cluster:
    partitions = {} if error else {0: PartitionView(leader, epoch, (1, 2), (1, 2))}
    topic = TopicView(name, UUID(int=topic_id), error, False, partitions)
    return Cluster("c", 1, {1: Endpoint("a", 1)}, {1: None}, {name: topic})


def test_a_response_is_read() -> None:
    response = MetadataResponse(
        cluster_id="c",
        controller_id=2,
        brokers=[MetadataResponseBroker(node_id=1, host="h", port=9, rack="r")],
        topics=[
            MetadataResponseTopic(
                name="t",
                topic_id=UUID(int=7),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=1,
                        leader_id=1,
                        leader_epoch=3,
                        replica_nodes=[1, 2],
                        isr_nodes=[1],
                        offline_replicas=[2],
                    ),
                    MetadataResponsePartition(partition_index=0, leader_id=-1, leader_epoch=4),
                ],
            ),
            MetadataResponseTopic(name="bad", error_code=ErrorCode.INVALID_TOPIC_EXCEPTION),
        ],
    )
    cluster = Cluster.of(response)
    assert (cluster.cluster_id, cluster.controller_id) == ("c", 2)
    assert (cluster.brokers, cluster.racks) == ({1: Endpoint("h", 9)}, {1: "r"})
    assert cluster.partition(TopicPartition("t", 1)) == PartitionView(1, 3, (1, 2), (1,), (2,))
    assert cluster.partitions_of("t") == [TopicPartition("t", 0), TopicPartition("t", 1)]
    assert cluster.leader_of(TopicPartition("t", 0)) == -1
    assert cluster.topics["t"].is_usable
    assert not cluster.topics["bad"].is_usable
    assert cluster.topics["bad"].error is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_what_is_not_known_has_no_leader() -> None:
    assert Cluster().leader_of(WHERE) == -1
    assert Cluster().leader_epoch_of(WHERE) == -1
    assert Cluster().partitions_of("t") == []


@pytest.mark.spec("E6")
def test_an_older_leader_does_not_replace_a_newer_one() -> None:
    assert picture(leader=1, epoch=5).merged_with(picture(leader=2, epoch=4)).leader_of(WHERE) == 1
    assert picture(leader=1, epoch=5).merged_with(picture(leader=2, epoch=6)).leader_of(WHERE) == 2
    assert picture(leader=1, epoch=5).merged_with(picture(leader=-1, epoch=6)).leader_of(WHERE) == -1


def test_a_topic_that_was_made_again_starts_anew() -> None:
    assert picture(leader=1, epoch=5).merged_with(picture(leader=2, epoch=0, topic_id=8)).leader_of(WHERE) == 2


def test_a_topic_that_was_deleted_is_gone() -> None:
    merged = picture().merged_with(picture(error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert merged.partition(WHERE) is None


def test_topics_that_were_not_asked_for_stay_unless_all_were() -> None:
    assert set(picture().merged_with(picture(name="u")).topics) == {"t", "u"}
    assert set(picture().merged_with(picture(name="u"), every_topic=True).topics) == {"u"}


def test_a_broker_that_knows_no_brokers_is_not_believed() -> None:
    merged = picture().merged_with(Cluster())
    assert merged.brokers == {1: Endpoint("a", 1)}
    assert merged.controller_id == 1


def test_leaders_that_newer_metadata_replaces_are_told_by_address() -> None:
    before = picture(leader=1, epoch=5)
    assert before.leaders_replaced_in(picture(leader=2, epoch=6)) == {Endpoint("a", 1)}
    assert before.leaders_replaced_in(picture(leader=-1, epoch=6)) == {Endpoint("a", 1)}
    assert before.leaders_replaced_in(picture(leader=1, epoch=6)) == set()
    assert before.leaders_replaced_in(before) == set()
    assert before.leaders_replaced_in(Cluster()) == set()
    assert picture(leader=2).leaders_replaced_in(picture(leader=1, epoch=6)) == set(), "its address is not known"
