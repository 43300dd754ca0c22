"""At a listener that speaks TLS: strangers begin to shake hands and leave, and clients read nothing."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import ssl
from collections import deque
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest
from live_attack import MEMORY_MAX, MIB, Target
from live_cluster import PATIENCE_S, assert_no_complaints, eventually, free_base_port
from live_wire import Wire, batch, fetch_request, produce_request

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin
from minikafka.net.arrivals import ARRIVALS_MAX

pytestmark = pytest.mark.spec("P6")

LEFT: Final = 10_000
HOLDING: Final = 1_500
BUFFER: Final = 256 * 1024
"""Of uvloop, for each connection with TLS."""
ANYBODY: Final = "CLIENT:SSL,REPLICATION:SSL,CONTROLLER:SSL"
"""Who connects need not log in."""


@pytest.mark.long
def test_who_begins_to_shake_hands_and_leaves_keeps_nobody_out(tmp_path: Path) -> None:
    """At the connection, in the first message or after it. More hold on than may be under way at once."""
    cluster = secure_cluster(tmp_path)
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


def secure_cluster(directory: Path, settings: dict[str, str] | None = None) -> LocalCluster:
    """One node that speaks TLS, not started."""
    return LocalCluster.create(
        directory / "cluster",
        brokers=1,
        base_port=free_base_port(1),
        detached=False,
        secure=True,
        settings=settings,
    )


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


NOT_READING: Final = 600


@pytest.mark.long
def test_who_fetches_much_and_reads_nothing_takes_little_memory(tmp_path: Path) -> None:
    """What was encrypted for them was in buffers that nobody counted: 600 took a node to 466 MB."""
    cluster = secure_cluster(tmp_path, {"super.users": "User:ANONYMOUS", "listener.security.protocol.map": ANYBODY})
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with ExitStack() as opened:
        opened.callback(cluster.kill_all)
        cluster.layout.write_files()
        cluster._spawn([1], [])  # it is never ready for the admin, whom it does not ask for a password
        target = Target(cluster)

        def dial() -> Wire:
            wire = opened.enter_context(target.wire())
            wire.socket = context.wrap_socket(wire.socket)
            return wire

        def is_up() -> bool:
            with suppress(ConnectionRefusedError), target.wire():
                return True
            return False

        eventually(is_up, "the listener")
        first = dial()
        first.create_topic("much", [[1]])
        eventually(lambda: first.has_topic("much"), "the topic")
        data = bytes(batch(os.urandom(MIB - 200)))
        for _ in range(16):
            eventually(lambda: first.ask(produce_request("much", data), 9).responses, "a write")
        fetch = fetch_request("much", 0)
        fetch.max_bytes = fetch.topics[0].partitions[0].partition_max_bytes = 16 * MIB
        with selectors.DefaultSelector() as unanswered:
            for _ in range(NOT_READING):
                wire = dial()
                wire.send(fetch, 11)
                unanswered.register(wire.socket, selectors.EVENT_READ)

            def are_all_answered() -> bool:
                for key, _events in unanswered.select(0.1):
                    unanswered.unregister(key.fileobj)
                return not unanswered.get_map()

            eventually(are_all_answered, "the first bytes of each answer")
        assert first.fetch("much", 0)
        assert target.peak_memory() < MEMORY_MAX
