"""Consumers that are sent to a follower in their rack, on real nodes (KIP-392)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import confluent_kafka
import pytest
from broker_client import Client, values_in
from broker_node import Cluster, create_topic, eventually, in_time, led, listener_of

from minikafka.broker.node import Node
from minikafka.client import Consumer
from minikafka.config.topics import RACK_AWARE_SELECTOR
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition

Dial = Callable[..., Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)
LONG_MS = 20_000

pytestmark = pytest.mark.spec("R25")


@pytest.fixture
async def leader(cluster: Cluster, dial: Dial) -> Node:
    """Node 1 in rack r1 leads, node 2 in rack r2 follows; three records are committed, as both know."""
    for node_id in cluster.node_ids:
        await cluster.start(node_id, broker_rack=f"r{node_id}", replica_selector_class=RACK_AWARE_SELECTOR)
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]])
    node = cluster.nodes[1]
    await eventually(lambda: node.replicas.get(ORDERS), "the leader")
    client = await dial(node)
    for value in (b"0", b"1", b"2"):
        await client.produce("orders", value)
    await eventually(lambda: high_watermark(cluster.nodes[2]) == 3, "the follower to know")
    return node


def high_watermark(node: Node) -> int:
    partition = node.replicas.get(ORDERS)
    return -1 if partition is None else partition.high_watermark


def waiting(node: Node) -> int:
    return node.replicas.waiting.consumer_fetches.delayed


def servers(node: Node) -> str:
    return str(listener_of(node).endpoint)


async def next_values(consumer: Consumer, count: int) -> list[bytes | None]:
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for record in await in_time(consumer.poll(LONG_MS, count - len(values)))]
    return values


async def test_a_leader_names_a_replica_in_the_rack_and_it_serves(leader: Node, cluster: Cluster, dial: Dial) -> None:
    client = await dial(leader)
    named = await in_time(client.fetch("orders", 1, rack_id="r2", max_wait_ms=LONG_MS, min_bytes=1))
    assert (named.preferred_read_replica, bytes(named.records or b"")) == (2, b"")
    assert (named.error_code, named.high_watermark) == (0, 3)
    there = await dial(cluster.nodes[2])
    served = await there.fetch("orders", 1, rack_id="r2")
    assert values_in(served.records) == [b"1", b"2"]
    assert (served.preferred_read_replica, served.high_watermark) == (-1, 3)
    assert (await there.fetch("orders", 3, rack_id="r2")).error_code == 0
    assert (await there.fetch("orders", 9, rack_id="r2")).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    unknown = await there.fetch("orders", 3, rack_id="r2", current_leader_epoch=7)
    assert unknown.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    for rack in ("", "r1", "r3", "nowhere"):
        served = await client.fetch("orders", 0, rack_id=rack)
        assert served.preferred_read_replica == -1
        assert values_in(served.records) == [b"0", b"1", b"2"], "by the leader, where there is no replica in the rack"


async def test_a_replica_that_is_not_in_sync_or_not_alive_is_not_named(
    leader: Node, cluster: Cluster, dial: Dial
) -> None:
    await cluster.kill(2)
    state = led(leader, ORDERS).leader
    assert state is not None
    await eventually(lambda: state.isr == (1,), "the ISR to shrink")
    served = await (await dial(leader)).fetch("orders", 0, rack_id="r2")
    assert (served.preferred_read_replica, len(values_in(served.records))) == (-1, 3)


async def test_our_consumer_reads_there_and_comes_back_when_it_fails(
    leader: Node, cluster: Cluster, dial: Dial
) -> None:
    follower, client = cluster.nodes[2], await dial(leader)
    async with Consumer(servers(leader), client_rack="r2", auto_offset_reset="earliest") as consumer:
        consumer.assign([ORDERS])
        assert await next_values(consumer, 3) == [b"0", b"1", b"2"]
        await eventually(lambda: (waiting(leader), waiting(follower)) == (0, 1), "the consumer to wait at the follower")
        await client.produce("orders", b"3")
        assert await next_values(consumer, 1) == [b"3"]
        await cluster.kill(2)
        await client.produce("orders", b"4")
        assert await next_values(consumer, 1) == [b"4"]


async def test_librdkafka_reads_there(leader: Node, cluster: Cluster, dial: Dial) -> None:
    follower, client = cluster.nodes[2], await dial(leader)
    run = partial(asyncio.get_running_loop().run_in_executor, None)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers(leader),
            "client.rack": "r2",
            "group.id": "g",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": LONG_MS,
            "socket.timeout.ms": 60_000,
        }
    )
    try:
        await run(consumer.assign, [confluent_kafka.TopicPartition("orders", 0, 0)])
        read = [await run(consumer.poll, 30) for _ in range(3)]
        assert [message.value() for message in read] == [b"0", b"1", b"2"]
        polling = run(consumer.poll, 30)
        await eventually(lambda: (waiting(leader), waiting(follower)) == (0, 1), "the consumer to wait at the follower")
        await client.produce("orders", b"3")
        assert (await polling).value() == b"3"
    finally:
        await run(consumer.close)
