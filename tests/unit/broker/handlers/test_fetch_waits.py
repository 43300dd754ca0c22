"""What ends a wait for bytes though the leader is still here: another epoch, and a log that became another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client, batch, fetch_request, values_in
from broker_node import create_topic, eventually, in_time, led, listener_of

from minikafka.broker import waiting as waiting_module
from minikafka.broker.handlers import fetching, produce
from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.net.reply import WAITING_BYTES
from minikafka.records.batch import parse_header
from minikafka.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Dial = Callable[..., Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)
LONG_MS = 20_000


@pytest.fixture
async def orders(node: Node, client: Client) -> None:
    """Topic orders with three batches of one record, in epoch 0."""
    await create_topic(node, "orders")
    for value in (b"a", b"b", b"c"):
        await client.produce("orders", value)


@pytest.mark.spec("D5")
@pytest.mark.usefixtures("orders")
async def test_a_new_leader_epoch_fences_a_waiting_fetch(node: Node, client: Client) -> None:
    waiting = client.send(fetch_request("orders", 3, current_leader_epoch=0, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed == 1, "the fetch to be parked")
    led(node, ORDERS).replica.leader_epoch = 1
    node.replicas.waiting.release(ORDERS)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert fetched.error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.spec("D5")
@pytest.mark.usefixtures("orders")
async def test_a_waiting_fetch_learns_that_its_log_left_the_leaders(node: Node, client: Client) -> None:
    asked = fetch_request("orders", 3, last_fetched_epoch=0, max_wait_ms=LONG_MS, min_bytes=1 << 20)
    waiting = client.send(asked, 12)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed == 1, "the fetch to be parked")
    log = led(node, ORDERS).log
    log.truncate_to(2)
    for _ in range(2):
        records = batch(b"another")
        log.stage(records, parse_header(records), leader_epoch=3, wall_ms=0)
    log.commit()
    node.replicas.waiting.release(ORDERS)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert (fetched.diverging_epoch.epoch, fetched.diverging_epoch.end_offset) == (0, 2)


@pytest.mark.spec("D5")
@pytest.mark.usefixtures("orders")
async def test_what_went_cold_under_a_waiting_fetch_is_read_beside_the_loop(node: Node, client: Client) -> None:
    """A segment was closed, and let go since: what the fetch found at first in memory has to be read from the disk."""
    waiting = client.send(fetch_request("orders", 0, max_wait_ms=LONG_MS, min_bytes=1 << 20), 12)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed == 1, "the fetch to be parked")
    log = led(node, ORDERS).log
    log.roll()
    log.flush()
    log.segments.closed[0].cool()
    assert log.prepare_read(0, 1000) is not None
    node.replicas.waiting.release(ORDERS)
    fetched = (await in_time(waiting)).responses[0].partitions[0]
    assert values_in(fetched.records) == [b"a", b"b", b"c"]


# -- how long, and for whom -------------------------------------------------------------------------------------------


@pytest.mark.spec("P6")
@pytest.mark.usefixtures("orders")
async def test_a_wait_is_capped(node: Node, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "LONGEST_WAIT_MS", 1)
    fetched = await client.fetch("orders", 3, max_wait_ms=2**31 - 1, min_bytes=1)
    assert not fetched.records


@pytest.mark.spec("P6")
@pytest.mark.usefixtures("orders")
async def test_what_waits_is_cancelled_with_its_connection(node: Node, client: Client, dial: Dial) -> None:
    """Twenty connections that were aborted, each with a thousand fetches, held the next produce up for 0.15 s."""
    leaving = await dial(node)
    for _ in range(20):
        leaving.send(fetch_request("orders", 3, max_wait_ms=LONG_MS, min_bytes=1), 12)
    staying = client.send(fetch_request("orders", 3, max_wait_ms=LONG_MS, min_bytes=1), 12)
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed == 21, "the fetches to be parked")
    leaving.close()
    await eventually(lambda: node.replicas.waiting.consumer_fetches.delayed == 1, "those of the connection to go")
    await (await dial(node)).produce("orders", b"d")
    assert (await in_time(staying)).responses[0].partitions[0].records


@pytest.mark.spec("P6")
async def test_many_that_wait_for_one_partition_are_answered_in_many_turns(
    start_node: Callable[..., Awaitable[Node]], dial: Dial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One record answered 35,000 fetches of 5,000 connections in one turn, of 0.34 s."""
    monkeypatch.setattr(waiting_module, "TRIED_AT_ONCE", 3)
    node = await start_node()
    await create_topic(node, "orders")
    clients = [await dial(node) for _ in range(5)]
    waiting = [client.send(fetch_request("orders", 0, max_wait_ms=LONG_MS, min_bytes=1), 12) for client in clients * 4]
    fetches = node.replicas.waiting.consumer_fetches
    await eventually(lambda: fetches.delayed == 20, "the fetches to be parked")
    left: list[int] = []
    go_on = fetches.go_on

    def note() -> int:
        left.append(fetches.delayed)
        return go_on()

    monkeypatch.setattr(type(fetches), "go_on", lambda each: note() if each is fetches else 0)
    await (await dial(node)).produce("orders", b"a")
    assert all([(await in_time(each)).responses[0].partitions[0].records for each in waiting])
    assert left == [20 - 3 * turn for turn in range(7)]


@pytest.mark.spec("P6")
async def test_a_produce_that_waits_is_cancelled_with_its_connection(node: Node, dial: Dial) -> None:
    await create_topic(node, "lonely", flush_messages=1)
    # Nothing counts until it is synced, which never happens.
    node.data_plane.jobs.request_sync = lambda _partition: None  # type: ignore[method-assign]
    leaving = await dial(node)
    leaving.send_produce("lonely", b"x")
    await eventually(lambda: node.replicas.waiting.produces.delayed == 1, "the produce to be parked")
    leaving.close()
    await eventually(lambda: node.replicas.waiting.produces.delayed == 0, "it to go")


@pytest.mark.spec("P6")
async def test_a_produce_that_waits_holds_something_for_each_of_its_partitions(node: Node, dial: Dial) -> None:
    """Small requests of a thousand partitions each took 0.6 MB each while they waited, and counted as 1 KiB."""
    names = [f"t{number}" for number in range(5)]
    for name in names:
        await create_topic(node, name, flush_messages=1)
    node.data_plane.jobs.request_sync = lambda _partition: None  # type: ignore[method-assign]
    records = bytes(batch(b"x"))
    topics = [
        TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=records)]) for name in names
    ]
    connection = await dial(node)
    connection.send(ProduceRequest(acks=-1, timeout_ms=LONG_MS, topic_data=topics), 9)
    await eventually(lambda: node.replicas.waiting.produces.delayed == 1, "the produce to be parked")
    (held,) = [each.replies_held for each in listener_of(node)._connections if each.replies_held]
    assert held == WAITING_BYTES + 4 * produce.WAITING_PARTITION_BYTES
