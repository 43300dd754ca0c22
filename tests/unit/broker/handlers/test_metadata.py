from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from uuid import UUID

import pytest
from broker_client import Client
from broker_node import ANY_PORTS, create_topic, listener_of

from minikafka.broker.authorizer import NOT_ASKED
from minikafka.broker.handlers import metadata
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.metadata.image import BrokerImage, MetadataImage, PartitionImage
from minikafka.model import Endpoint
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.describe_cluster import DescribeClusterRequest
from minikafka.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

Dial = Callable[..., Awaitable[Client]]
StartNode = Callable[..., Awaitable[Node]]

VERSIONS = range(ApiKey.METADATA.versions.first, ApiKey.METADATA.versions.last + 1)


def by_name(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


async def topics(
    client: Client, request: MetadataRequest, version: int | None = None
) -> dict[str | None, MetadataResponseTopic]:
    return {topic.name: topic for topic in (await client.ask(request, version)).topics}


@pytest.mark.parametrize("version", VERSIONS)
async def test_every_version_is_understood(node: Node, client: Client, version: int) -> None:
    await create_topic(node, "orders", partitions=2)
    answer = await client.ask(by_name("orders"), version)
    endpoint = listener_of(node).endpoint
    assert [(each.node_id, each.host, each.port) for each in answer.brokers] == [(1, endpoint.host, endpoint.port)]
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == node.cluster_id
    topic = answer.topics[0]
    assert (topic.error_code, topic.name, topic.is_internal) == (0, "orders", False)
    assert [
        (each.partition_index, each.leader_id, each.replica_nodes, each.isr_nodes) for each in topic.partitions
    ] == [
        (0, 1, [1], [1]),
        (1, 1, [1], [1]),
    ]
    for _ in range(2):  # what was encoded once is used again
        assert (await client.ask(by_name("orders"), version)).topics[0].name == "orders"


async def test_null_asks_for_all_topics_and_an_empty_list_for_none(node: Node, client: Client) -> None:
    for name in ("b", "a"):
        await create_topic(node, name)
    everything = MetadataRequest(topics=None)
    for version in (1, 13):
        assert set(await topics(client, everything, version)) == {"a", "b"}
    assert set(await topics(client, MetadataRequest(topics=[]), 0)) == {"a", "b"}, "version 0 had no null"
    assert await topics(client, MetadataRequest(topics=[]), 1) == {}


async def test_a_new_topic_is_seen_at_once(node: Node, client: Client) -> None:
    assert (await topics(client, by_name("orders")))["orders"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await create_topic(node, "orders")
    assert (await topics(client, by_name("orders")))["orders"].error_code == 0


async def test_a_topic_is_created_when_it_is_first_named(node: Node, client: Client) -> None:
    assert (await topics(client, by_name("new", create=True)))["new"].error_code == 0
    assert (await topics(client, by_name("newer", create=False), 3))["newer"].error_code == 0, "before version 4 always"
    for version in (4, 12):
        answer = await topics(client, by_name("absent", create=False), version)
        assert answer["absent"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert {topic.name for topic in node.image.topics()} == {"new", "newer"}


async def test_topics_are_not_created_where_that_is_forbidden(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(auto_create_topics_enable="false")
    answer = await topics(await dial(node), by_name("new", create=True))
    assert answer["new"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.spec("P6")
@pytest.mark.parametrize("name", ["", ".", "..", "../x", "/etc", "a\0b", "x" * 250, "ä"])
async def test_names_that_are_none_are_not_created(node: Node, client: Client, name: str) -> None:
    answer = await client.ask(by_name(name, "fine", create=True))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_TOPIC_EXCEPTION, 0]
    assert node.failure is None


async def test_a_topic_that_needs_more_brokers_than_there_are_comes_later(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(default_replication_factor=3)
    answer = await topics(await dial(node), by_name("new", create=True))
    assert answer["new"].error_code == ErrorCode.LEADER_NOT_AVAILABLE


async def test_the_offsets_topic_is_internal_and_made_with_its_own_settings(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(offsets_topic_num_partitions=3, offsets_topic_replication_factor=1)
    topic = (await topics(await dial(node), by_name("__consumer_offsets", create=True)))["__consumer_offsets"]
    assert (topic.is_internal, len(topic.partitions)) == (True, 3)
    assert node.image.topic_overrides("__consumer_offsets")["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_the_cluster_is_described(node: Node, client: Client, version: int) -> None:
    answer = await client.ask(DescribeClusterRequest(), version)
    assert (answer.error_code, answer.cluster_id, answer.controller_id) == (0, node.cluster_id, 1)
    assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, listener_of(node).endpoint.port)]


@pytest.mark.parametrize("version", range(8, 14))
async def test_without_an_authorizer_everything_may_be_done(node: Node, client: Client, version: int) -> None:
    """KIP-430. The numbers are Apache Kafka's: 8 operations on a topic, there or not, and 7 on the cluster."""
    await create_topic(node, "orders")
    for asked, on_topic, on_cluster in [(False, NOT_ASKED, NOT_ASKED), (True, 3576, 8096)] * 2:
        request = by_name("orders", "absent")
        request.include_topic_authorized_operations = asked
        request.include_cluster_authorized_operations = asked and version < 11
        answer = await client.ask(request, version)
        assert {topic.topic_authorized_operations for topic in answer.topics} == {on_topic}
        if version < 11:
            assert answer.cluster_authorized_operations == on_cluster
    for asked, on_cluster in [(False, NOT_ASKED), (True, 8096)]:
        cluster = DescribeClusterRequest(include_cluster_authorized_operations=asked)
        assert (await client.ask(cluster)).cluster_authorized_operations == on_cluster


async def test_controllers_are_not_told_by_the_listener_of_brokers(client: Client) -> None:
    for endpoint_type, error in [
        (2, ErrorCode.MISMATCHED_ENDPOINT_TYPE),
        (3, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE),
    ]:
        answer = await client.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
        assert (answer.error_code, answer.brokers) == (error, [])
        assert answer.error_message


@pytest.mark.parametrize("version", [10, 11])
async def test_an_unknown_id_before_answers_could_lack_a_name_is_an_error(client: Client, version: int) -> None:
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=UUID(int=7))])
    (topic,) = (await client.ask(unknown, version)).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.INVALID_REQUEST, "", UUID(int=7))


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("name", [None, "orders"])
async def test_an_unknown_id_is_said_to_be_unknown(client: Client, name: str | None, version: int) -> None:
    unknown = MetadataRequest(topics=[MetadataRequestTopic(name=name, topic_id=UUID(int=7))])
    (topic,) = (await client.ask(unknown, version)).topics
    assert (topic.error_code, topic.name, topic.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, None, UUID(int=7))


@pytest.mark.parametrize("version", [12, 13])
async def test_an_id_counts_and_not_the_empty_name_that_java_sends_with_it(
    node: Node, client: Client, version: int
) -> None:
    await create_topic(node, "orders")
    found = node.image.topic("orders")
    assert found is not None
    request = MetadataRequest(
        topics=[
            MetadataRequestTopic(name="", topic_id=found.topic_id),
            MetadataRequestTopic(name="", topic_id=UUID(int=7)),
        ]
    )
    (known,) = (await client.ask(request, version)).topics  # with another row, of any kind, Java's client goes wrong
    assert (known.error_code, known.name, known.topic_id) == (0, "orders", found.topic_id)


@pytest.mark.parametrize("version", [10, 11, 12, 13])
async def test_a_topic_is_found_by_its_id(node: Node, client: Client, version: int) -> None:
    await create_topic(node, "orders")
    found = node.image.topic("orders")
    assert found is not None
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=found.topic_id)])
    (topic,) = (await client.ask(request, version)).topics
    assert (topic.error_code, topic.name, len(topic.partitions)) == (ErrorCode.NONE, "orders", 1)


def test_a_leader_that_is_fenced_is_none() -> None:
    """The partitions of a fenced broker get their new leaders in portions; meanwhile no list has the old one."""
    broker = BrokerImage(3, UUID(int=1), 7, {"CLIENT": Endpoint("h", 1)}, None, (), False, False)
    partition = PartitionImage(replicas=(3, 1), isr=(3, 1), leader=3, leader_epoch=5, partition_epoch=0)
    for fenced, leader, error in ((False, 3, ErrorCode.NONE), (True, -1, ErrorCode.LEADER_NOT_AVAILABLE)):
        image = MetadataImage(brokers={3: replace(broker, fenced=fenced)})
        told = metadata._partition(image, 0, partition, "CLIENT")
        assert (told.leader_id, told.error_code, told.leader_epoch) == (leader, error, 5)


async def test_a_client_learns_the_addresses_of_the_listener_that_it_came_by(start_node: StartNode, dial: Dial) -> None:
    node = await start_node(listeners=f"{ANY_PORTS},HOST://127.0.0.1:0", advertised_listeners="HOST://outside:19092")
    await create_topic(node, "orders")
    endpoint = listener_of(node).endpoint
    for listener, address in (("CLIENT", (endpoint.host, endpoint.port)), ("HOST", ("outside", 19092))):
        client = await dial(node, listener)
        await client.produce("orders", listener.encode())
        for request in (MetadataRequest(topics=None), DescribeClusterRequest()):
            (broker,) = (await client.ask(request)).brokers
            assert (broker.host, broker.port) == address


async def test_listeners_for_clients_share_the_limits(start_node: StartNode) -> None:
    node = await start_node(
        listeners=f"{ANY_PORTS},HOST://127.0.0.1:0", max_connections=9, queued_max_request_bytes=8 << 20
    )
    client, host = node.listeners.clients
    for listener in (client, host):
        assert listener._limits.max_connections == 4
        assert listener.shared.budget.limit == 4 << 20
