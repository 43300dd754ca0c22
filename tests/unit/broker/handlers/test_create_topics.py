"""CreateTopics, CreatePartitions and DeleteTopics: what the controller decides, and what the handlers make of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest
from broker_client import Client
from broker_node import create_topic, eventually

from minikafka.broker import pacing
from minikafka.broker.handlers import create_topics
from minikafka.broker.node import Node
from minikafka.config import ConfigSource
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from minikafka.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from minikafka.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]


def topic(name: str, partitions: int = 1, replication: int = 1, **how: object) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replication, **how)  # type: ignore[arg-type]


def versions(key: ApiKey) -> list[int]:
    return list(range(key.versions.first, key.versions.last + 1))


async def create(client: Client, *topics: CreatableTopic, version: int | None = None, **how: object) -> list[int]:
    """The error of each."""
    answer = await client.ask(CreateTopicsRequest(topics=list(topics), timeout_ms=5000, **how), version)  # type: ignore[arg-type]
    return [each.error_code for each in answer.topics]


async def test_topics_are_created_in_every_version(node: Node, client: Client) -> None:
    for version in versions(ApiKey.CREATE_TOPICS):
        assert await create(client, topic(f"t{version}", 2), version=version) == [0]
        image = node.image.topic(f"t{version}")
        assert image is not None, "it is seen where it was asked for when that is answered"
        assert sorted(image.partitions) == [0, 1]


async def test_the_answer_says_what_was_made(node: Node, client: Client) -> None:
    settings = {"retention.ms": "1000", "cleanup.policy": ""}
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    request = CreateTopicsRequest(topics=[topic("orders", 3, configs=configs)], timeout_ms=5000)
    made = (await client.ask(request)).topics[0]
    image = node.image.topic("orders")
    assert image is not None
    assert (made.name, made.topic_id, made.num_partitions, made.replication_factor) == ("orders", image.topic_id, 3, 1)
    assert node.image.topic_overrides("orders") == settings
    assert made.configs is not None, "which is what Java's admin client takes for granted"
    sources = {config.name: (config.value, config.config_source) for config in made.configs}
    assert sources["retention.ms"] == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert sources["cleanup.policy"] == ("", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert sources["compression.type"] == ("producer", ConfigSource.DEFAULT_CONFIG)


@pytest.mark.spec("P6")
async def test_what_cannot_be_created(node: Node, client: Client) -> None:
    await create_topic(node, "a_b")
    bad = {
        "a.b": (topic("a.b"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        "a_b": (topic("a_b"), ErrorCode.TOPIC_ALREADY_EXISTS),
        "../x": (topic("../x"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        "": (topic(""), ErrorCode.INVALID_TOPIC_EXCEPTION),
        "none": (topic("none", 0), ErrorCode.INVALID_PARTITIONS),
        "minus": (topic("minus", -5), ErrorCode.INVALID_PARTITIONS),
        "rf0": (topic("rf0", 1, 0), ErrorCode.INVALID_REPLICATION_FACTOR),
        "rf2": (topic("rf2", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        "config": (
            topic("config", configs=[CreatableTopicConfig(name="retention.ms", value="soon")]),
            ErrorCode.INVALID_CONFIG,
        ),
        "null": (
            topic("null", configs=[CreatableTopicConfig(name="retention.ms", value=None)]),
            ErrorCode.INVALID_CONFIG,
        ),
        "assigned": (
            topic("assigned", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[9])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        "gap": (
            topic("gap", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=3, broker_ids=[1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        "nobody": (
            topic("nobody", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        "twice": (
            topic("twice", -1, -1, assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
        "fine": (topic("fine"), ErrorCode.NONE),
    }
    answer = await client.ask(CreateTopicsRequest(topics=[each for each, _ in bad.values()], timeout_ms=5000))
    assert {each.name: each.error_code for each in answer.topics} == {name: error for name, (_, error) in bad.items()}
    assert all(each.error_message for each in answer.topics if each.error_code)
    assert {each.name for each in node.image.topics()} == {"a_b", "fine"}
    assert node.failure is None


async def test_the_same_topic_twice_is_refused_and_the_others_proceed(client: Client) -> None:
    answer = await client.ask(CreateTopicsRequest(topics=[topic("a"), topic("b"), topic("a")], timeout_ms=5000))
    errors = {each.name: each.error_code for each in answer.topics}
    assert errors == {"a": ErrorCode.INVALID_REQUEST, "b": 0}


async def test_validating_makes_nothing(node: Node, client: Client) -> None:
    assert await create(client, topic("a"), topic("..", 1), validate_only=True) == [
        0,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert list(node.image.topics()) == []


async def test_more_partitions(node: Node, client: Client) -> None:
    await create_topic(node, "orders", 1)

    async def grow(*topics: CreatePartitionsTopic, version: int | None = None, validate: bool = False) -> list[int]:
        request = CreatePartitionsRequest(topics=list(topics), timeout_ms=5000, validate_only=validate)
        return [each.error_code for each in (await client.ask(request, version)).results]

    def to(count: int, name: str = "orders", assignments: list[list[int]] | None = None) -> CreatePartitionsTopic:
        given = None if assignments is None else [CreatePartitionsAssignment(broker_ids=ids) for ids in assignments]
        return CreatePartitionsTopic(name=name, count=count, assignments=given)

    count = 1
    for version in versions(ApiKey.CREATE_PARTITIONS):
        count += 1
        assert await grow(to(count), version=version) == [0]
        image = node.image.topic("orders")
        assert image is not None
        assert len(image.partitions) == count
    assert await grow(to(count + 1, assignments=[[1]]), validate=True) == [0]
    assert await grow(to(count)) == [ErrorCode.INVALID_PARTITIONS]
    assert await grow(to(0)) == [ErrorCode.INVALID_PARTITIONS]
    assert await grow(to(count + 1, assignments=[[7]])) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert await grow(to(count + 2, assignments=[[1]])) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert await grow(to(2, "nowhere"), to(count + 1, assignments=[[1]])) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0]
    await eventually(lambda: len(node.replicas) == count + 1, "all replicas")
    assert (await client.produce("orders", b"x", partition=count)).error_code == 0


@pytest.mark.spec("C5")
async def test_topics_are_deleted_for_real(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    node = await start_node(log_segment_delete_delay_ms=0)
    client = await dial(node)
    for version in versions(ApiKey.DELETE_TOPICS):
        await create_topic(node, "orders", 2)
        await client.produce("orders", b"x")
        image = node.image.topic("orders")
        assert image is not None
        by_id = DeleteTopicState(topic_id=image.topic_id)
        request = DeleteTopicsRequest(topics=[by_id], topic_names=["orders"], timeout_ms=5000)
        answer = await client.ask(request, version)
        assert [each.error_code for each in answer.responses] == [0]
        assert answer.responses[0].name == "orders"
        assert node.image.topic("orders") is None
        assert (await client.fetch("orders")).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await eventually(lambda: not list((tmp_path / "data").glob("orders*")), "the files to go")


async def test_what_cannot_be_deleted(node: Node, client: Client) -> None:
    await create_topic(node, "orders")
    answer = await client.ask(DeleteTopicsRequest(topic_names=["nowhere", "orders"], timeout_ms=5000), 3)
    assert {each.name: each.error_code for each in answer.responses} == {
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "orders": 0,
    }
    unknown = [DeleteTopicState(topic_id=UUID(int=5)), DeleteTopicState(name="nowhere")]
    answer = await client.ask(DeleteTopicsRequest(topics=unknown, timeout_ms=5000))
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


async def test_a_request_that_fails_as_a_whole_fails_for_each(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_request: object) -> object:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "not today")

    monkeypatch.setattr(node.control_plane.controller, "handle", refuse)
    created = await client.ask(CreateTopicsRequest(topics=[topic("a"), topic("b")], timeout_ms=1))
    assert [(each.name, each.error_code) for each in created.topics] == [("a", -1), ("b", -1)]
    deleted = await client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="a")], timeout_ms=1))
    assert [(each.name, each.error_code) for each in deleted.responses] == [("a", -1)]
    grown = await client.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=2)], timeout_ms=1))
    assert [(each.name, each.error_code, each.error_message) for each in grown.results] == [("a", -1, "not today")]


@pytest.mark.spec("P6")
async def test_topics_beyond_what_one_request_may_create_are_refused(
    node: Node, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing, "PER_REQUEST", 2)
    monkeypatch.setattr(create_topics, "PORTIONS_MAX", 2)
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "abcdea"]
    answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000))
    errors = {each.name: each.error_code for each in answer.topics}
    assert errors.pop("a") == ErrorCode.INVALID_REQUEST
    refused = [name for name, error in errors.items() if error == ErrorCode.POLICY_VIOLATION]
    assert refused == ["d", "e"]
    assert {name for name in "abcde" if node.image.topic(name)} == {"b", "c"}
