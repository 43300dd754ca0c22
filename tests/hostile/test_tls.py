"""Strangers at a listener that speaks TLS: they begin to shake hands, and leave."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from pathlib import Path
from typing import Final

import pytest
from live_attack import Target
from live_cluster import PATIENCE_S, assert_no_complaints, free_base_port

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin
from minikafka.net.arrivals import ARRIVALS_MAX

pytestmark = pytest.mark.spec("P6")

LEFT: Final = 10_000
HOLDING: Final = 1_500
BUFFER: Final = 256 * 1024
"""Of uvloop, for each connection with TLS."""


@pytest.mark.long
def test_who_begins_to_shake_hands_and_leaves_keeps_nobody_out(tmp_path: Path) -> None:
    """At the connection, in the first message or after it. More hold on than may be under way at once."""
    cluster = LocalCluster.create(
        tmp_path / "cluster",
        brokers=1,
        base_port=free_base_port(1),
        detached=False,
        secure=True,
    )
    try:
        cluster.start(PATIENCE_S)
        target, begin = Target(cluster), client_hello()
        target.forget_peak_memory()
        before = target.peak_memory()
        ask(cluster)
        holding: deque[socket.socket] = deque()
        for number in range(LEFT):
            holding.append(socket.create_connection(("127.0.0.1", target.port)))
            holding[-1].sendall((b"", begin[:100], begin)[number % 3])
            if len(holding) > HOLDING:
                holding.popleft().close()
            if number % 1000 == 999:
                ask(cluster)
        for stranger in holding:
            stranger.close()
        assert target.peak_memory() - before < ARRIVALS_MAX * BUFFER
    finally:
        cluster.kill_all()
    assert_no_complaints(cluster)


def client_hello() -> bytes:
    """A client's first message."""
    sent = ssl.MemoryBIO()
    connection = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return sent.read()


def ask(cluster: LocalCluster) -> None:
    """As somebody who shakes hands and logs in, with a client's patience."""

    async def ask() -> None:
        async with Admin(f"127.0.0.1:{cluster.layout.client_port(1)}", security=cluster.layout.security) as admin:
            assert await admin.describe_cluster()

    asyncio.run(ask())
