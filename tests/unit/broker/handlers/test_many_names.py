"""Requests that name one thing very often, or very many things: 40,000 times one topic made an answer of 69 MiB."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from uuid import UUID

import pytest
from broker_client import Client
from broker_node import create_topic

from minikafka.broker.context import CLIENT_ELEMENTS_MAX
from minikafka.broker.node import Node
from minikafka.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from minikafka.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, HeartbeatTopicPartitions
from minikafka.wire.messages.delete_groups import DeleteGroupsRequest
from minikafka.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from minikafka.wire.messages.describe_groups import DescribeGroupsRequest
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from minikafka.wire.messages.fetch import FetchRequest, FetchTopic
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from minikafka.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from minikafka.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from minikafka.wire.messages.produce import ProduceRequest, TopicProduceData
from minikafka.wire.schema import Message

pytestmark = pytest.mark.spec("P6")

OFTEN = 5_000
NAMES = ["orders", "missing"] * OFTEN

REPEATED: dict[str, tuple[Callable[[Sequence[str]], Message], str]] = {
    "Metadata": (
        lambda names: MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
        ),
        "topics",
    ),
    "DescribeTopicPartitions": (
        lambda names: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names]),
        "topics",
    ),
    "DescribeConfigs": (
        lambda names: DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=2, resource_name=name) for name in names]
        ),
        "results",
    ),
    "FindCoordinator": (lambda names: FindCoordinatorRequest(key_type=0, coordinator_keys=list(names)), "coordinators"),
    "OffsetFetch": (
        lambda names: OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names]
        ),
        "groups",
    ),
    "DescribeGroups": (lambda names: DescribeGroupsRequest(groups=list(names)), "groups"),
    "DeleteGroups": (lambda names: DeleteGroupsRequest(groups_names=list(names)), "results"),
}

TOO_MANY: dict[str, Callable[[int], Message]] = {
    "Metadata": lambda count: MetadataRequest(topics=[MetadataRequestTopic(name="a")] * count),
    "Produce": lambda count: ProduceRequest(acks=1, topic_data=[TopicProduceData(name="a")] * count),
    "Fetch": lambda count: FetchRequest(topics=[FetchTopic(topic="a")] * count),
}

MANY_TOPICS = [f"topic-{number}" for number in range(3_000)]
FOUR = [0, 1, 2, 3]

ALL_PARTITIONS: dict[str, tuple[Message, int]] = {
    "OffsetFetch": (
        OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id="g",
                    topics=[OffsetFetchRequestTopics(name=name, partition_indexes=FOUR) for name in MANY_TOPICS],
                )
            ]
        ),
        8,
    ),
    "OffsetCommit": (
        OffsetCommitRequest(
            group_id="g",
            topics=[
                OffsetCommitRequestTopic(
                    name=name, partitions=[OffsetCommitRequestPartition(partition_index=index) for index in FOUR]
                )
                for name in MANY_TOPICS
            ],
        ),
        8,
    ),
    "ConsumerGroupHeartbeat": (
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=7,
            topic_partitions=[HeartbeatTopicPartitions(topic_id=UUID(int=n), partitions=FOUR) for n in range(3_000)],
        ),
        0,
    ),
    "ListPartitionReassignments": (
        ListPartitionReassignmentsRequest(
            topics=[ListPartitionReassignmentsTopics(name=name, partition_indexes=FOUR) for name in MANY_TOPICS]
        ),
        0,
    ),
    "AlterPartitionReassignments": (
        AlterPartitionReassignmentsRequest(
            topics=[
                ReassignableTopic(
                    name=name,
                    partitions=[ReassignablePartition(partition_index=index, replicas=[1, 2, 3]) for index in FOUR],
                )
                for name in MANY_TOPICS
            ]
        ),
        0,
    ),
}
"""By consumers and tools that cannot ask twice. None of this is there: that costs as much."""


@pytest.mark.parametrize("api", ALL_PARTITIONS)
async def test_who_names_all_partitions_of_a_large_cluster_gets_an_answer(client: Client, api: str) -> None:
    """The connection was closed: ``kafka-topics.sh --describe`` failed after a minute with 12,000 partitions, and a
    consumer of all of them got no record and no error."""
    request, version = ALL_PARTITIONS[api]
    await client.ask(request, version)


@pytest.mark.parametrize("api", REPEATED)
async def test_what_is_named_again_and_again_is_answered_once(node: Node, client: Client, api: str) -> None:
    await create_topic(node, "orders")
    make, answers = REPEATED[api]
    answer = await client.ask(make(NAMES))
    assert len(attrgetter(answers)(answer)) == 2


@pytest.mark.parametrize("api", TOO_MANY)
async def test_more_than_a_turn_can_take_closes_the_connection(node: Node, client: Client, api: str) -> None:
    client.send(TOO_MANY[api](CLIENT_ELEMENTS_MAX + 1), 11 if api == "Fetch" else 9).add_done_callback(
        lambda asked: asked.exception()
    )
    await client.wait_closed()
