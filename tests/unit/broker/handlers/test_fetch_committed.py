"""Fetches and look-ups of read_committed consumers (KIP-98)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from broker_client import Client, batch, fetch_request, values_in
from broker_node import create_topic, eventually, in_time, led, turns

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import Isolation, TopicPartition
from minikafka.records.batch import parse_header
from minikafka.wire.messages.fetch import PartitionData
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)
LONG_MS = 20_000
committed = partial(Client.fetch, isolation_level=Isolation.READ_COMMITTED)

pytestmark = pytest.mark.spec("T23")


def write(node: Node, producer_id: int, value: bytes = b"v", sequence: int = 0) -> None:
    data = batch(value, producer=(producer_id, 0, sequence), is_transactional=True)
    node.replicas.stage(led(node, ORDERS), memoryview(data), parse_header(data))
    node.replicas.commit_staged()


def end(node: Node, producer_id: int, *, commits: bool) -> None:
    node.replicas.stage_marker(led(node, ORDERS), producer_id, 0, 0, commits=commits, transaction_version=0)
    node.replicas.commit_staged()


def told(data: PartitionData) -> list[tuple[int, int]] | None:
    aborted = data.aborted_transactions
    return None if aborted is None else [(one.producer_id, one.first_offset) for one in aborted]


async def latest(client: Client, isolation: Isolation, timestamp: int = -1) -> int:
    asked = ListOffsetsTopic(name="orders", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    answer = await client.ask(ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=[asked]))
    return int(answer.topics[0].partitions[0].offset)


@pytest.fixture
async def orders(node: Node, client: Client) -> None:
    await create_topic(node, "orders")


async def test_nothing_of_an_open_transaction_is_read(node: Node, client: Client, orders: None) -> None:
    await client.produce("orders", b"plain")
    write(node, 7)
    await client.produce("orders", b"behind")
    data = await committed(client, "orders")
    assert (data.high_watermark, data.last_stable_offset) == (3, 1)
    assert (values_in(data.records), told(data)) == ([b"plain"], [])
    nothing = await committed(client, "orders", 1)
    assert (bytes(nothing.records or b""), told(nothing)) == (b"", [])
    data = await client.fetch("orders")
    assert (len(values_in(data.records)), told(data), data.last_stable_offset) == (3, None, 1)
    assert await latest(client, Isolation.READ_COMMITTED) == 1
    assert await latest(client, Isolation.READ_UNCOMMITTED) == 3
    assert await latest(client, Isolation.READ_COMMITTED, timestamp=1) == 0
    assert told(await committed(client, "orders", 9)) is None, "with an error"


async def test_aborted_transactions_come_with_the_records_that_they_are_among(
    node: Node, client: Client, orders: None
) -> None:
    write(node, 7)
    write(node, 8)
    end(node, 7, commits=False)
    write(node, 9)
    end(node, 8, commits=False)
    end(node, 9, commits=True)
    data = await committed(client, "orders")
    assert (told(data), data.last_stable_offset) == ([(7, 0), (8, 1)], 6)
    assert told(await committed(client, "orders", 3)) == [(8, 1)]
    assert told(await committed(client, "orders", 5)) == []
    assert told(await committed(client, "orders", 0, partition_max_bytes=1)) == [(7, 0)], "in one batch"
    assert told(await client.fetch("orders")) is None


async def test_a_waiting_fetch_is_answered_when_the_transaction_ends(node: Node, client: Client, orders: None) -> None:
    write(node, 7)
    fetch = client.send_fetch("orders", isolation_level=Isolation.READ_COMMITTED, max_wait_ms=LONG_MS, min_bytes=1)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed, "the fetch to wait")
    await turns(5)
    assert not fetch.done()
    end(node, 7, commits=False)
    data = (await in_time(fetch)).responses[0].partitions[0]
    assert (told(data), data.last_stable_offset) == ([(7, 0)], 2)


async def test_what_ends_in_segments_that_nobody_read_lately_is_found_beside_the_loop(
    node: Node, client: Client, orders: None
) -> None:
    log = led(node, ORDERS).log
    write(node, 7)
    log.roll()
    write(node, 8)
    end(node, 8, commits=False)
    log.roll()
    end(node, 7, commits=False)
    log.roll()
    log.flush()
    for _ in range(2):
        for segment in log.segments.closed:
            segment.cool()
        assert log.aborted.between(0, 1) is None
        data = await committed(client, "orders")
        assert (len(values_in(data.records)), told(data)) == (1, [(7, 0)])
    assert told(await committed(client, "orders", 1)) == [(8, 1), (7, 0)]


async def test_sessions_are_told_too(node: Node, client: Client, orders: None) -> None:
    opened = await client.ask(fetch_request("orders", isolation_level=Isolation.READ_COMMITTED, session_epoch=0), 12)
    write(node, 7)
    end(node, 7, commits=False)
    asked = fetch_request("orders", isolation_level=Isolation.READ_COMMITTED)
    asked.topics, asked.session_id, asked.session_epoch = [], opened.session_id, 1
    answer = await client.ask(asked, 12)
    (data,) = answer.responses[0].partitions
    assert (told(data), data.last_stable_offset) == ([(7, 0)], 2)


async def test_a_follower_tells_the_same(start_node: StartNode, join: Join, dial: Dial) -> None:
    leader = await start_node()
    follower = await join(leader)
    await create_topic(leader, "orders", replicas=[[1, 2]])
    client = await dial(follower)
    write(leader, 7)
    write(leader, 8)
    end(leader, 7, commits=False)
    copy = await eventually(lambda: follower.replicas.get(ORDERS), "the follower")
    await eventually(lambda: copy.high_watermark == 3, "the follower to know")
    data = await committed(client, "orders")
    assert (data.error_code, data.last_stable_offset, told(data)) == (0, 1, [(7, 0)])
    assert len(values_in(data.records)) == 1
    end(leader, 8, commits=True)
    await eventually(lambda: copy.high_watermark == 4, "the follower to know")
    assert (await committed(client, "orders")).last_stable_offset == 4
    assert (await committed(await dial(leader), "orders", 9)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
