from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from broker_client import Client, values_in
from broker_node import create_topic, listener_of

from minikafka.broker.node import Node
from minikafka.wire.messages.metadata import MetadataRequest

StartNode = Callable[..., Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]


async def test_a_node_on_any_ports_tells_which(node: Node, client: Client) -> None:
    answer = await client.ask(MetadataRequest(topics=None))
    assert [broker.port for broker in answer.brokers] == [listener_of(node).endpoint.port]
    assert answer.brokers[0].port > 0
    assert node._replication_endpoint(1) == listener_of(node, "REPLICATION").endpoint


async def test_records_are_there_after_a_restart(start_node: StartNode, dial: Dial, tmp_path: Path) -> None:
    node = await start_node()
    await create_topic(node, "orders")
    await (await dial(node)).produce("orders", b"one", b"two")
    await node.stop()
    assert (tmp_path / "data/.kafka_cleanshutdown").exists()
    node = await start_node()
    assert node.store.was_clean
    fetched = await (await dial(node)).fetch("orders")
    assert values_in(fetched.records) == [b"one", b"two"]
    assert fetched.high_watermark == 2
