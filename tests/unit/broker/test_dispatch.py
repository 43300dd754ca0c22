from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import listener_of

from minikafka.broker.dispatch import Dispatcher
from minikafka.broker.node import Node
from minikafka.net.channel import ChannelClosedError
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest
from minikafka.wire.messages.metadata import MetadataRequest

Dial = Callable[..., Awaitable[Client]]


@pytest.mark.spec("P6")
async def test_a_bug_in_a_handler_costs_a_connection_and_not_the_node(node: Node, dial: Dial) -> None:
    async def handle(_request: object, _context: object) -> None:
        raise ZeroDivisionError("a bug")

    dispatcher = listener_of(node)._handler
    assert isinstance(dispatcher, Dispatcher)
    dispatcher._waiting[ApiKey.FIND_COORDINATOR] = handle
    client = await dial(node)
    with pytest.raises(ChannelClosedError):
        await client.ask(FindCoordinatorRequest(key="group"))
    assert node.failure is None
    assert not node.stopped.is_set()
    assert (await (await dial(node)).ask(MetadataRequest(topics=None))).brokers
