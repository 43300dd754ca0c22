"""Who comes with a wrong certificate, version or protocol is told in a line, on both sides, and holds nothing up."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from broker_node import eventually, in_time, listener_of
from broker_tls import PLAIN_AND_SSL, Files, security, servers
from captured_logs import capture_logs
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import Producer as ConfluentProducer

from minikafka.broker.node import Node
from minikafka.broker.tls import Tls
from minikafka.client import Admin, Security
from minikafka.config import BrokerConfig
from minikafka.config.node import REPLICATION
from minikafka.errors import KafkaError
from minikafka.model import Endpoint
from minikafka.net.channel import Channel

StartNode = Callable[..., Awaitable[Node]]
YESTERDAY = datetime.now(UTC) - timedelta(days=1)
HUGE = [f"{number:060}.{'a' * 60}.{'b' * 60}.example.org" for number in range(600)]
"""Names of a certificate that is larger than any may be, and would be small if it were compressed."""


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is refused is not tried again for seconds."""
    monkeypatch.setattr("minikafka.client.connections.BOOTSTRAP_TIMEOUT_S", 0.0)


async def said_of(node: Node, how: Security, listener: str = "SSL") -> tuple[str, str]:
    """What our client says when it does not get in, and the node's line about it."""
    with capture_logs() as logs:
        with pytest.raises(KafkaError) as raised:
            async with Admin(servers(node, listener), security=how) as admin:
                await admin.describe_cluster()
        closed = await eventually(lambda: [each for each in logs if each["event"] == "connection closed"], "a line")
    lines = raised.value.message, str(closed[0]["why"])
    assert not any("\n" in line for line in lines)
    return lines


async def honest(node: Node, files: Files) -> None:
    async with Admin(servers(node), security=security(files, ssl_keystore_location=files.client)) as admin:
        assert await admin.describe_cluster()


@pytest.mark.parametrize(
    ("which", "ours", "theirs"),
    [
        ("expired", "certificate has expired", "it has expired"),
        ("foreign", "unable to get local issuer certificate", "it does not know who issued it"),
    ],
)
async def test_a_node_whose_certificate_is_wrong(
    which: str, ours: str, theirs: str, start_secure: StartNode, files: Files
) -> None:
    """The loops of Python end such a connection without a word to the node; other clients tell it why."""
    by, not_after = ("foreign", None) if which == "foreign" else ("good", YESTERDAY)
    node = await start_secure(ssl_keystore_location=files.of("127.0.0.1", by=by, not_after=not_after))
    with pytest.raises(KafkaError, match=f"its certificate is refused: {ours}"):
        async with Admin(servers(node), security=security(files)):
            pass
    context = security(files).context()
    assert context is not None
    with capture_logs() as logs:
        await asyncio.to_thread(refused_by, context, listener_of(node, "SSL").endpoint)
        await eventually(lambda: any(each["event"] == "connection closed" for each in logs), "a line")
    closed = [each["why"] for each in logs if each["event"] == "connection closed"]
    assert closed == [f"TLS handshake: it refuses this node's certificate: {theirs}"]


def refused_by(context: ssl.SSLContext, endpoint: Endpoint) -> None:
    with (
        socket.create_connection(endpoint, timeout=30) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
    ):
        context.wrap_socket(plain, server_hostname=endpoint.host)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("which", "why"),
    [
        ("none", "it has no certificate, and ssl.client.auth wants one"),
        ("expired", "its certificate is refused: certificate has expired"),
        ("foreign", "its certificate is refused: unable to get local issuer certificate"),
        ("huge", "its certificates have more than 16 KiB"),
    ],
)
async def test_a_client_whose_certificate_is_wrong(
    which: str, why: str, version: str, start_secure: StartNode, files: Files
) -> None:
    node = await start_secure(ssl_client_auth="required", ssl_enabled_protocols=version)
    own = {
        "none": lambda: None,
        "expired": lambda: files.of("eve", not_after=YESTERDAY),
        "foreign": lambda: files.of("eve", by="foreign"),
        "huge": lambda: files.of(*HUGE),
    }[which]()
    ours, theirs = await said_of(node, security(files, ssl_keystore_location=own))
    assert "127.0.0.1" in ours
    assert "TLS" in ours
    assert theirs == f"TLS handshake: {why}"
    await honest(node, files)


async def test_a_certificate_that_python_cannot_read(start_secure: StartNode, files: Files) -> None:
    """Event loops have all of it decoded, for whoever may ask. That failed, and the node stopped."""
    node = await start_secure(ssl_client_auth="required")
    async with Admin(servers(node), security=security(files, ssl_keystore_location=files.odd())) as admin:
        assert await admin.describe_cluster()
    await honest(node, files)


async def test_a_node_whose_certificate_python_cannot_read(start_secure: StartNode, files: Files) -> None:
    """Neither clients nor other nodes got in: they said that its address is not a host name."""
    node = await start_secure(ssl_keystore_location=files.odd())
    how = security(files, ssl_endpoint_identification_algorithm="")
    async with Admin(servers(node), security=how) as admin:
        assert await admin.describe_cluster()
    of_peer = {
        "listener.security.protocol.map": "REPLICATION:SSL",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.location": files.node,
        "ssl.truststore.location": files.authority,
        "ssl.endpoint.identification.algorithm": "",
    }
    dialling = Tls(BrokerConfig(of_peer)).dialling(REPLICATION)
    assert dialling is not None
    channel = await Channel.open(listener_of(node, "SSL").endpoint, timeout_s=30, tls=dialling)
    channel.close()
    await channel.closed


async def test_a_bug_in_a_handshake_is_its_clients_alone(
    start_secure: StartNode, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stopped the node, as what fails in any other task does that is not for one stranger."""

    async def planted(*_: object) -> None:
        raise RuntimeError("planted")

    node = await start_secure()
    with capture_logs() as logs, monkeypatch.context() as patch:
        patch.setattr("minikafka.net.flights.Flights.shake_hands", planted)
        with pytest.raises(KafkaError):
            await honest(node, files)
    assert {each["event"] for each in logs if each["log_level"] == "error"} == {"a TLS handshake failed"}
    await honest(node, files)


@pytest.mark.parametrize(
    ("whose", "which", "told", "logged"),
    [
        ("node", "expired", "certificate verify failed", "it has expired"),
        ("node", "foreign", "certificate verify failed", "it does not know who issued it"),
        ("node", "another host's", "certificate verify failed", "it does not name the host, or is damaged"),
        ("client", "expired", "alert certificate expired", "its certificate is refused: certificate has expired"),
        ("client", "foreign", "alert unknown ca", "its certificate is refused: unable to get local issuer certificate"),
    ],
)
async def test_librdkafka_with_a_certificate_that_is_wrong(
    whose: str, which: str, told: str, logged: str, start_secure: StartNode, files: Files
) -> None:
    wrong = {
        "expired": lambda name: files.of(name, not_after=YESTERDAY),
        "foreign": lambda name: files.of(name, by="foreign"),
        "another host's": lambda _name: files.of("another.host"),
    }[which]
    of_node = wrong("127.0.0.1") if whose == "node" else files.node
    of_client = wrong("eve") if whose == "client" else files.client
    node = await start_secure(ssl_keystore_location=of_node, ssl_client_auth="required")

    def first_error() -> str:
        errors: list[ConfluentError] = []
        producer = ConfluentProducer(
            {
                "bootstrap.servers": servers(node),
                "security.protocol": "ssl",
                "ssl.ca.location": files.authority,
                "ssl.certificate.location": of_client,
                "ssl.key.location": of_client,
                "error_cb": errors.append,
                "log_level": 0,
            }
        )
        while not errors:
            producer.poll(0.1)
        return errors[0].str()

    with capture_logs() as logs:
        said = await in_time(asyncio.to_thread(first_error))
        closed = await eventually(lambda: [each for each in logs if each["event"] == "connection closed"], "a line")
    assert told in said
    assert logged in closed[0]["why"]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
async def test_a_client_without_a_certificate_is_told(version: str, start_secure: StartNode, files: Files) -> None:
    """By an alert, which the loops of Python would leave unsent: other clients saw an end without a reason."""
    node = await start_secure(ssl_client_auth="required", ssl_enabled_protocols=version)
    context = security(files).context()
    assert context is not None
    endpoint = listener_of(node, "SSL").endpoint

    def told() -> str:
        with socket.create_connection(endpoint, timeout=30) as plain, pytest.raises(ssl.SSLError) as raised:
            context.wrap_socket(plain, server_hostname=endpoint.host, suppress_ragged_eofs=False).recv(1)
        return str(raised.value)

    assert "alert" in await asyncio.to_thread(told)


async def test_a_connection_that_is_closed_ends_as_tls_does(start_secure: StartNode, files: Files) -> None:
    """Without a word clients report a fault of TLS, where something else was wrong."""
    node = await start_secure()
    context = security(files).context()
    assert context is not None
    endpoint = listener_of(node, "SSL").endpoint

    def end() -> bytes:
        with (
            socket.create_connection(endpoint, timeout=30) as plain,
            context.wrap_socket(plain, server_hostname=endpoint.host, suppress_ragged_eofs=False) as wrapped,
        ):
            wrapped.sendall(b"\0\0\0\4\x7f\xff\0\0")  # of no API
            return wrapped.recv(1)

    assert await asyncio.to_thread(end) == b""
    await eventually(lambda: not listener_of(node, "SSL")._connections, "it to be gone")


async def test_a_version_that_is_too_old(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with capture_logs() as logs:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await in_time(asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port, ssl=context))
        await eventually(lambda: any(each["event"] == "connection closed" for each in logs), "a line")
    closed = [each["why"] for each in logs if each["event"] == "connection closed"]
    assert closed == ["TLS handshake: it speaks a version of TLS that is not allowed here"]


async def test_another_protocol_on_either_side(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    ours, theirs = await said_of(node, Security())
    assert ours.endswith(f"{servers(node)}: the connection ended; does this listener speak TLS (security.protocol)?")
    assert theirs == "TLS handshake: it does not speak TLS; set security.protocol=SSL or use another port"
    ours, theirs = await said_of(node, security(files), "CLIENT")
    assert ours.endswith("it does not speak TLS, or refuses this client; see the broker's log")
    assert "a TLS handshake was sent to a plaintext port" in theirs


@pytest.mark.parametrize(
    "begin", [b"\x16", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03\x01\xff\xff" + bytes(1000), b"\0" * 9]
)
async def test_a_handshake_that_breaks_off_or_is_nonsense(begin: bytes, start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port)
    writer.write(begin)
    writer.write_eof()
    with suppress(ConnectionResetError):  # what is no whole record is not read
        await in_time(reader.read())
    writer.close()
    await eventually(lambda: listener_of(node, "SSL").arriving_count == 0, "it to be gone")
    await honest(node, files)


def test_nobody_renegotiates(files: Files) -> None:
    """Each would cost the node a handshake. Python's ssl cannot ask for it; ``openssl s_client`` can, by ``R``."""
    settings = {"listeners": PLAIN_AND_SSL, "ssl.keystore.location": files.node}
    assert Tls(BrokerConfig(settings)).accepting("SSL").options & ssl.OP_NO_RENEGOTIATION
