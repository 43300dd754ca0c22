"""Real sockets on both event loops. Makes the helpers beside these tests (net_*.py) importable by name."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from minikafka.model import Endpoint
from minikafka.net.addresses import Addresses
from minikafka.net.connection import FrameHandler
from minikafka.net.listener import Listener, ListenerLimits

sys.path.insert(0, str(Path(__file__).parent))

from net_peers import Peer

Serve = Callable[..., Awaitable[Listener]]
Dial = Callable[..., Awaitable[Peer]]


@pytest.hookimpl(optionalhook=True)
def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The node runs on uvloop; on asyncio's own loop everything must work as well."""
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts a listener on a free port for a handler; its limits by name."""
    started: list[Listener] = []

    async def start(handler: FrameHandler, addresses: Addresses | None = None, **limits: float) -> Listener:
        bounds = ListenerLimits(**{"max_connections": 100, "max_frame_bytes": 1 << 20, **limits})  # type: ignore[arg-type]
        listener = Listener("CLIENT", Endpoint("127.0.0.1", 0), handler, bounds, addresses=addresses)
        await listener.start()
        started.append(listener)
        return listener

    yield start
    for listener in started:
        await listener.close()


@pytest.fixture
async def dial() -> AsyncIterator[Dial]:
    """Connects a bare socket to a listener."""
    dialled: list[Peer] = []

    async def connect(listener: Listener, **how: int) -> Peer:
        peer = await Peer.connect(listener.endpoint, **how)
        dialled.append(peer)
        return peer

    yield connect
    for peer in dialled:
        peer.close()


@pytest.fixture
async def unhandled() -> list[dict[str, object]]:
    """What reached the loop's exception handler; nothing is printed."""
    found: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: found.append(context))
    return found


@pytest.fixture
def deaf() -> Iterator[Endpoint]:
    """Where a process listens that does not accept, as one that is paused: its queue of connections is full."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        yield Endpoint(*server.getsockname())
        for each in waiting:
            each.close()
