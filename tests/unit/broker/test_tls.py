"""A listener that speaks TLS, with clients of others and with ours."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka import AIOKafkaConsumer
from broker_node import ANY_PORTS, create_topic, eventually, listener_of
from captured_logs import capture_logs
from confluent_kafka import Producer as ConfluentProducer

from minikafka.broker.node import Node
from minikafka.client import Admin, Consumer, Producer, Security
from minikafka.errors import KafkaError
from minikafka.net import arrivals

StartNode = Callable[..., Awaitable[Node]]
PLAIN_AND_SSL = f"{ANY_PORTS},SSL://127.0.0.1:0"


@cache
def authority(name: str) -> trustme.CA:
    return trustme.CA(organization_name=name)


class Files:
    """PEM files, as the settings of both sides name them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.authority = self._file("ca.pem", authority("good").cert_pem)
        self.node = self.of("127.0.0.1")
        self.client = self.of("alice@example.org")

    def of(self, name: str, by: str = "good") -> str:
        """A key with a certificate for `name`."""
        return self._file(f"{by}-{name}.pem", authority(by).issue_cert(name).private_key_and_cert_chain_pem)

    def _file(self, name: str, content: trustme.Blob) -> str:
        path = self._directory / name
        content.write_to_path(str(path))
        return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
async def start_secure(start_node: StartNode, files: Files) -> StartNode:
    async def start(**settings: object) -> Node:
        settings = {"listeners": PLAIN_AND_SSL, "ssl_keystore_location": files.node} | settings
        return await start_node(**settings, ssl_truststore_location=files.authority)

    return start


def servers(node: Node, listener: str = "SSL") -> str:
    return f"127.0.0.1:{listener_of(node, listener).endpoint.port}"


def security(files: Files, **options: Any) -> Security:
    return Security(**{"security_protocol": "SSL", "ssl_truststore_location": files.authority} | options)


async def refusal(node: Node, security: Security, listener: str = "SSL") -> str:
    """What our client says when it does not get in."""
    with pytest.raises(KafkaError) as raised:
        async with Admin(servers(node, listener), security=security):
            pass
    return raised.value.message


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused is not tried again for seconds."""
    monkeypatch.setattr("minikafka.client.connections.BOOTSTRAP_TIMEOUT_S", 0.0)


async def test_records_come_back_whoever_writes_and_reads_them(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    await create_topic(node, "t")
    values = [bytes([number]) * 300_000 for number in range(20)]  # larger than what is sent in a piece

    def produce() -> None:
        own = {"bootstrap.servers": servers(node), "security.protocol": "ssl", "ssl.ca.location": files.authority}
        producer = ConfluentProducer(own)
        for value in values[:10]:
            producer.produce("t", value)
        assert producer.flush(60) == 0

    await asyncio.to_thread(produce)
    async with Producer(servers(node), security=security(files)) as ours:
        for value in values[10:]:
            await ours.send_and_wait("t", value)
    async with Consumer(servers(node), "t", auto_offset_reset="earliest", security=security(files)) as consumer:
        records = aiter(consumer)
        assert [(await anext(records)).value for _ in values] == values
    theirs = AIOKafkaConsumer(
        "t",
        bootstrap_servers=servers(node),
        auto_offset_reset="earliest",
        security_protocol="SSL",
        ssl_context=security(files).context(),
    )
    await theirs.start()
    try:
        assert [(await theirs.getone()).value for _ in values] == values
    finally:
        await theirs.stop()


async def test_a_client_learns_addresses_of_the_listener_that_it_came_by(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    for listener, how in (("SSL", security(files)), ("CLIENT", Security())):
        async with Admin(servers(node, listener), security=how) as admin:
            cluster = await admin.describe_cluster()
            assert [str(endpoint) for endpoint in cluster.brokers.values()] == [servers(node, listener)]


async def test_a_client_does_not_talk_to_a_broker_that_it_cannot_trust(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    unknown = await refusal(node, security(files, ssl_truststore_location=None))
    assert "its certificate is refused: self-signed certificate in certificate chain" in unknown
    await node.stop()
    other = await start_secure(ssl_keystore_location=files.of("broker.example.org"))
    named = await refusal(other, security(files))
    assert "its certificate is refused: IP address mismatch, certificate is not valid for '127.0.0.1'" in named
    async with Admin(servers(other), security=security(files, ssl_endpoint_identification_algorithm="")) as admin:
        assert await admin.describe_cluster()


async def test_who_takes_a_listener_for_another_is_told(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    with capture_logs() as logs:
        assert servers(node) in await refusal(node, Security())
        await eventually(lambda: any("TLS handshake" in str(each.get("why")) for each in logs), "a line in the log")
    said = await refusal(node, security(files), "CLIENT")
    assert said.endswith("it does not speak TLS, or refuses this client; see the broker's log")


async def test_a_listener_asks_clients_for_certificates(start_secure: StartNode, files: Files) -> None:
    for wanted, with_none in (("required", False), ("requested", True), ("none", True)):
        node = await start_secure(ssl_client_auth=wanted)
        for own, is_let_in in ((None, with_none), (files.client, True), (files.of("eve", "bad"), wanted == "none")):
            how = security(files, ssl_keystore_location=own)
            if is_let_in:
                async with Admin(servers(node), security=how) as admin:
                    assert await admin.describe_cluster()
            else:
                await refusal(node, how)
        await node.stop()


async def test_older_versions_of_tls_are_refused(start_secure: StartNode, files: Files) -> None:
    node = await start_secure(ssl_enabled_protocols="TLSv1.3")
    context = security(files).context()
    assert context is not None
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port, ssl=context)


@pytest.mark.spec("P6")
async def test_handshakes_that_are_begun_and_left_keep_nobody_out(
    start_secure: StartNode, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "ARRIVALS_MAX", 50)
    node = await start_secure()
    listener = listener_of(node, "SSL")
    left = [await asyncio.open_connection("127.0.0.1", listener.endpoint.port) for _ in range(200)]
    left[0][1].write(b"\x16\x03\x01")  # of a handshake
    async with Admin(servers(node), security=security(files)) as admin:
        assert await admin.describe_cluster()
    assert listener.arriving_count <= 50
    assert await left[0][0].read() == b"", "the oldest is turned away"
    for _, writer in left:
        writer.close()
    await eventually(lambda: listener.arriving_count == 0, "all to be gone")


async def test_a_handshake_that_is_not_finished_ends(start_secure: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "HANDSHAKE_TIMEOUT_S", 0.01)
    node = await start_secure()
    with capture_logs() as logs:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port)
        assert await reader.read() == b""
        writer.close()
    assert any("handshake is taking longer" in str(each.get("why")) for each in logs)


async def test_a_node_stops_while_somebody_shakes_hands(start_secure: StartNode) -> None:
    node = await start_secure()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port)
    await eventually(lambda: listener_of(node, "SSL").arriving_count == 1, "the connection to be there")
    await node.stop()
    assert await reader.read() == b""
    writer.close()
