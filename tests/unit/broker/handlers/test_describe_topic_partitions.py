from __future__ import annotations

import pytest
from broker_client import Client
from broker_node import create_topic

from minikafka.broker.handlers.describe_topic_partitions import LARGEST_PAGE
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.wire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)


async def describe(
    client: Client, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None
) -> DescribeTopicPartitionsResponse:
    at = None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1])
    topics = [TopicRequest(name=name) for name in names]
    answer: DescribeTopicPartitionsResponse = await client.ask(
        DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=at)
    )
    return answer


def shown(answer: DescribeTopicPartitionsResponse) -> list[tuple[str | None, list[int]]]:
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics]


async def test_topics_come_page_by_page(node: Node, client: Client) -> None:
    for name, partitions in (("b", 3), ("a", 2), ("c", 1)):
        await create_topic(node, name, partitions)
    pages, cursor = [], None
    for _ in range(3):
        answer = await describe(client, limit=2, cursor=cursor)
        pages.append(shown(answer))
        if answer.next_cursor is None:
            break
        cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
    assert pages == [[("a", [0, 1])], [("b", [0, 1])], [("b", [2]), ("c", [0])]]
    assert answer.next_cursor is None
    assert shown(await describe(client, "c", "a")) == [("a", [0, 1]), ("c", [0])]


async def test_a_partition_is_described_in_full(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    (topic,) = (await describe(client, "orders")).topics
    topic_image = node.image.topic("orders")
    assert topic_image is not None
    assert topic.topic_id == topic_image.topic_id
    assert topic.topic_authorized_operations == 3576, "always told, as in Apache Kafka"
    (partition,) = topic.partitions
    assert (partition.error_code, partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (0, 1, [1], [1])
    assert (partition.eligible_leader_replicas, partition.last_known_elr, partition.offline_replicas) == ([], [], [])


@pytest.mark.parametrize(
    ("name", "error"),
    [("nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("no/where", ErrorCode.INVALID_TOPIC_EXCEPTION)],
)
async def test_a_missing_topic_is_named(client: Client, name: str, error: ErrorCode) -> None:
    (topic,) = (await describe(client, name)).topics
    assert (topic.name, topic.error_code, topic.partitions) == (name, error, [])


@pytest.mark.spec("P6")
async def test_topics_without_partitions_take_their_place_on_a_page(node: Node, client: Client) -> None:
    """20,000 names that nobody has were an answer of 20,000 topics, encoded in one turn of the loop."""
    await create_topic(node, "m", 2)
    names = [f"{number:04d}" for number in range(LARGEST_PAGE + 500)]
    first = await describe(client, *names, "m", limit=1_000_000)
    assert [topic.name for topic in first.topics] == names[:LARGEST_PAGE]
    assert first.next_cursor is not None
    at = (first.next_cursor.topic_name, first.next_cursor.partition_index)
    assert at == (names[LARGEST_PAGE], 0)
    second = await describe(client, *names, "m", cursor=at)
    assert shown(second) == [(name, []) for name in names[LARGEST_PAGE:]] + [("m", [0, 1])]
    assert second.next_cursor is None
    refused = await describe(client, *names, cursor=("zzz", 0))
    assert {topic.error_code for topic in refused.topics} == {ErrorCode.INVALID_REQUEST}
    assert len(refused.topics) == LARGEST_PAGE


@pytest.mark.parametrize("cursor", [("orders", -1), ("other", 0)])
async def test_a_cursor_that_points_nowhere_is_refused(node: Node, client: Client, cursor: tuple[str, int]) -> None:
    await create_topic(node, "orders")
    (topic,) = (await describe(client, "orders", cursor=cursor)).topics
    assert topic.error_code == ErrorCode.INVALID_REQUEST


async def test_a_cursor_behind_the_last_partition_goes_on_with_the_next_topic(node: Node, client: Client) -> None:
    await create_topic(node, "a", 2)
    await create_topic(node, "b")
    assert shown(await describe(client, cursor=("a", 7))) == [("a", []), ("b", [0])]
