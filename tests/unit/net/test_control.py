"""Control calls over real sockets of this machine."""

from __future__ import annotations

import asyncio
from typing import Any

from minikafka.chaos.ports import free_base_port
from minikafka.model import Endpoint
from minikafka.net.control import ControlLink, ControlServer
from minikafka.net.identity import Identity
from minikafka.net.listener import Listener, ListenerLimits
from minikafka.net.tasks import TaskOwner

SECRET = b"a secret of some length"
LIMITS = ListenerLimits(max_connections=10, max_frame_bytes=1 << 20)


def identity(node_id: int) -> Identity:
    return Identity("cluster", node_id, SECRET, lambda: bytes(32))


async def test_a_call_is_answered_before_an_earlier_one_that_waits_for_it() -> None:
    # A registration waits for the commit that the same peer's next fetch brings about, on the same connection.
    fetched = asyncio.Event()

    async def register(peer_id: int, body: Any) -> Any:
        await fetched.wait()
        return f"registered {peer_id}"

    async def fetch(peer_id: int, body: Any) -> Any:
        fetched.set()
        return body

    tasks = TaskOwner("test", lambda name, error: None)
    server = ControlServer(identity(1), {"register": register, "fetch": fetch}, tasks, lambda peer_id: None)
    endpoint = Endpoint("127.0.0.1", free_base_port(1))
    listener = Listener("CONTROLLER", endpoint, server, LIMITS)
    await listener.start()
    link = ControlLink(identity(2), 1, endpoint)
    try:
        async with asyncio.timeout(30):
            registering = tasks.start(link.call("register", None, timeout_s=30), "register")
            await asyncio.sleep(0)  # let it go first
            assert await link.call("fetch", "records", timeout_s=30) == "records"
            assert await registering == "registered 2"
    finally:
        link.close()
        await listener.close()
        await tasks.close()
