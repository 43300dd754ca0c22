"""A refusal says who leads instead, and where that node is reached (KIP-951)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

import pytest
from broker_client import Client, batch, fetch_request, produce_request
from broker_node import Cluster, create_topic, eventually, led, listener_of

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import Endpoint, TopicPartition

Dial = Callable[..., Awaitable[Client]]


@pytest.fixture
async def other(cluster: Cluster) -> Node:
    """Node 2, which follows ``shared`` and has no replica of ``alone``; node 1 leads both."""
    await cluster.start()
    await cluster.ready()
    for name, replicas in (("shared", [1, 2]), ("alone", [1])):
        tp = await create_topic(cluster.controller, name, replicas=[replicas])
        await eventually(lambda tp=tp: cluster.nodes[1].replicas.get(tp), "the leader")
        await eventually(lambda name=name: cluster.nodes[2].image.topic(name), "the other node to know")
    await eventually(lambda: cluster.nodes[2].replicas.get(TopicPartition("shared", 0)), "the follower")
    return cluster.nodes[2]


def client_endpoint(node: Node) -> Endpoint:
    return listener_of(node).endpoint


@pytest.mark.parametrize("topic", ["shared", "alone"])
async def test_a_producer_is_told_the_leader(other: Node, cluster: Cluster, dial: Dial, topic: str) -> None:
    leader = cluster.nodes[1]
    answer = await (await dial(other)).ask(produce_request(topic, batch(b"x"), acks=-1), 10)
    refused = answer.responses[0].partition_responses[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    epoch = led(leader, TopicPartition(topic, 0)).leader_epoch
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (1, epoch)
    assert [(node.node_id, Endpoint(node.host, node.port)) for node in answer.node_endpoints] == [
        (1, client_endpoint(leader))
    ]


async def test_a_consumer_is_told_the_leader(other: Node, cluster: Cluster, dial: Dial) -> None:
    topic = other.image.topic("alone")
    assert topic is not None
    request = fetch_request("", 0, topic_id=UUID(int=topic.topic_id.int))
    answer = await (await dial(other)).ask(request, 16)
    refused = answer.responses[0].partitions[0]
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader.leader_id == 1
    assert [(node.node_id, Endpoint(node.host, node.port)) for node in answer.node_endpoints] == [
        (1, client_endpoint(cluster.nodes[1]))
    ]


async def test_versions_that_cannot_say_it_do_not(other: Node, dial: Dial) -> None:
    answer = await (await dial(other)).ask(produce_request("shared", batch(b"x"), acks=-1), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.node_endpoints == []


async def test_nobody_is_named_for_what_is_not_there(other: Node, dial: Dial) -> None:
    answer = await (await dial(other)).ask(produce_request("nowhere", batch(b"x"), acks=-1), 10)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.node_endpoints == []
