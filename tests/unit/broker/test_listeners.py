"""How many clients may connect, which is set while a node runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker_client import Client
from broker_node import alter_setting, eventually, listener_of

from minikafka.broker.node import Node
from minikafka.metadata.effective import EVERY_BROKER
from minikafka.metadata.image import ConfigResource
from minikafka.metadata.records import ConfigResourceType
from minikafka.wire.messages.api_versions import ApiVersionsRequest

Dial = Callable[..., Awaitable[Client]]
OF_ONE = ConfigResource(ConfigResourceType.BROKER, "1")


async def test_bounds_on_connections_are_those_of_now(node: Node, client: Client, dial: Dial) -> None:
    async def change(resource: ConfigResource, name: str, value: str) -> None:
        await alter_setting(node, resource, name, value)
        await eventually(lambda: node.image.config_of(resource).get(name) == value, name)

    await client.ask(ApiVersionsRequest())
    await change(EVERY_BROKER, "max.connections.per.ip", "1")
    await (await dial(node)).wait_closed()
    await change(OF_ONE, "max.connections.per.ip.overrides", "127.0.0.1:9")
    await (await dial(node)).ask(ApiVersionsRequest())
    await change(EVERY_BROKER, "max.connections", "2")
    await (await dial(node)).wait_closed()
    assert listener_of(node).connection_count == 2, "nobody who was in is turned out"
