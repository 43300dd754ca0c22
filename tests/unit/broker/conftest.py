"""Real nodes in this process, on free ports. Makes the helpers beside these tests (broker_*.py) importable by name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

sys.path.insert(0, str(Path(__file__).parent))

from broker_client import Client
from broker_node import SECRET, Cluster, listener_of, make_node, wait_until_ready
from broker_tls import PLAIN_AND_SSL, Files

from minikafka.broker.node import Node

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[..., Awaitable[Node]]


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """What the node runs on; tests/unit/net covers what differs between loops."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def start_node(tmp_path: Path) -> AsyncIterator[StartNode]:
    """Starts a single node, ready to serve; settings by Kafka's names with underscores, ``disk`` and ``wall_s``."""
    started: list[Node] = []

    async def start(*, wait: bool = True, **how: object) -> Node:
        node = make_node(tmp_path / "data", **how)  # type: ignore[arg-type]
        started.append(node)
        await node.start()
        if wait:
            await wait_until_ready(node)
        return node

    yield start
    for node in started:
        if not node.tasks._closed:
            await node.stop()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Keys and certificates."""
    return Files(tmp_path)


@pytest.fixture
async def start_secure(start_node: StartNode, files: Files) -> StartNode:
    """Starts a single node with a listener that speaks TLS beside the plain one."""

    async def start(**settings: object) -> Node:
        settings = {"listeners": PLAIN_AND_SSL, "ssl_keystore_location": files.node} | settings
        return await start_node(**settings, ssl_truststore_location=files.authority)

    return start


@pytest.fixture
async def node(start_node: StartNode) -> Node:
    return await start_node()


@pytest.fixture
async def join(tmp_path: Path) -> AsyncIterator[Join]:
    """Starts node 2 beside a voter; it is stopped first, while somebody can give it leave."""
    joined: list[Node] = []

    async def start(voter: Node, **settings: object) -> Node:
        voters = f"1@{listener_of(voter, 'CONTROLLER').endpoint}"
        node = make_node(
            tmp_path / "joins",
            node_id=2,
            process_roles="broker",
            controller_quorum_voters=voters,
            cluster_secret=SECRET.decode(),
            **settings,
        )
        joined.append(node)
        await node.start()
        await wait_until_ready(node)
        return node

    yield start
    for node in joined:
        if not node.tasks._closed:
            await node.stop()


@pytest.fixture
async def dial() -> AsyncIterator[Callable[..., Awaitable[Client]]]:
    """Connects to a node's listener."""
    dialled: list[Client] = []

    async def connect(node: Node, listener: str = "CLIENT") -> Client:
        dialled.append(await Client.connect(node, listener))
        return dialled[-1]

    yield connect
    for client in dialled:
        client.close()


@pytest.fixture
async def client(node: Node, dial: Callable[..., Awaitable[Client]]) -> Client:
    return await dial(node)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Three nodes that know each other, not started yet."""
    made = Cluster(tmp_path, 3)
    yield made
    await made.stop()
