"""A listener that speaks TLS, with clients of others and with ours."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from unittest.mock import Mock

import pytest
from aiokafka import AIOKafkaConsumer
from broker_node import create_topic, eventually, listener_of
from broker_scrape import LISTENS, scrape, value
from broker_tls import PLAIN_AND_SSL, Files, security, servers
from captured_logs import capture_logs
from confluent_kafka import Producer as ConfluentProducer

from minikafka.broker.authentication import CertifiedClients, Logins
from minikafka.broker.node import Node
from minikafka.client import Admin, Consumer, Producer, Security
from minikafka.config.principals import PrincipalRules
from minikafka.config.security import STANDARD_AUTHORIZER
from minikafka.errors import KafkaError
from minikafka.net import arrivals

StartNode = Callable[..., Awaitable[Node]]


async def refusal(node: Node, security: Security, listener: str = "SSL") -> str:
    """What our client says when it does not get in."""
    with pytest.raises(KafkaError) as raised:
        async with Admin(servers(node, listener), security=security):
            pass
    return raised.value.message


def has_ended(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


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


@pytest.mark.spec("P6")
async def test_an_answer_is_sent_to_its_end_however_large(start_secure: StartNode, files: Files) -> None:
    """Beyond 4 MiB the rest never came: the sender stopped before uvloop's TLS was full, and waited to hear of room."""
    node = await start_secure()
    await create_topic(node, "t")
    async with Producer(servers(node), security=security(files)) as producer:
        for number in range(6):
            await producer.send_and_wait("t", bytes([number]) * 1_000_000)
    large = {"max_partition_fetch_bytes": 8 << 20, "fetch_max_bytes": 8 << 20}
    async with Consumer(
        servers(node), "t", auto_offset_reset="earliest", security=security(files), **large
    ) as consumer:
        records = aiter(consumer)
        async with asyncio.timeout(20):
            assert [(await anext(records)).value[0] for _ in range(6)] == [*range(6)]


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
    node = await start_secure(**LISTENS)
    with capture_logs() as logs:
        assert servers(node) in await refusal(node, Security())
        await eventually(lambda: any("TLS handshake" in str(each.get("why")) for each in logs), "a line in the log")
    families = await scrape(node)
    for name in ("minikafka_failed_tls_handshakes", "kafka_server_socket_server_metrics_failed_authentication"):
        assert value(families, f"{name}_total", listener="SSL")
    said = await refusal(node, security(files), "CLIENT")
    assert said.endswith("it does not speak TLS, or refuses this client; see the broker's log")


async def test_a_listener_asks_clients_for_certificates(start_secure: StartNode, files: Files) -> None:
    """All that speak SSL, unless one has a setting of its own."""
    listeners = f"{PLAIN_AND_SSL},OTHER://127.0.0.1:0"
    for wanted, with_none in (("required", False), ("requested", True), ("none", True)):
        other = "required" if with_none else "none"
        settings = {"listener.name.other.ssl.client.auth": other, "listener.security.protocol.map": "OTHER:SSL"}
        node = await start_secure(ssl_client_auth=wanted, listeners=listeners, **settings)
        for own, is_let_in in ((None, with_none), (files.client, True), (files.of("eve", by="bad"), wanted == "none")):
            how = security(files, ssl_keystore_location=own)
            if is_let_in:
                async with Admin(servers(node), security=how) as admin:
                    assert await admin.describe_cluster()
            else:
                await refusal(node, how)
        if other == "required":
            await refusal(node, security(files), "OTHER")
        how = security(files, ssl_keystore_location=files.client if other == "required" else None)
        async with Admin(servers(node, "OTHER"), security=how) as admin:
            assert await admin.describe_cluster()
        await node.stop()


async def test_who_has_a_certificate_is_whom_it_names(start_secure: StartNode, files: Files) -> None:
    for rules, user in (
        ("DEFAULT", None),
        ("RULE:^.*O=trustme v([0-9]).*$/$1-$2/,DEFAULT", "1-$2"),
        ("RULE:bob/bob/", ""),
    ):
        node = await start_secure(ssl_client_auth="requested", ssl_principal_mapping_rules=rules)
        if user == "":
            await refusal(node, security(files, ssl_keystore_location=files.client))
            assert node.listeners.logins["SSL"].refused
        else:
            async with Admin(servers(node), security=security(files, ssl_keystore_location=files.client)):
                (named,) = {each.user for each in listener_of(node, "SSL")._connections}
                assert named == user if user else re.fullmatch(r"OU=Testing cert \\#[^,]+,O=trustme v[0-9.]+", named)
        async with Admin(servers(node), security=security(files)):
            await eventually(
                lambda: [each.user for each in listener_of(node, "SSL")._connections] == ["ANONYMOUS"],  # noqa: B023
                "the other connection to be closed",
            )
        await node.stop()


def test_a_certificate_that_cannot_be_read_lets_nobody_in() -> None:
    connection = Mock(certificate=b"0\x03\x02\x01")
    logins = Logins()
    CertifiedClients(Mock(), PrincipalRules("DEFAULT"), logins).on_connection_made(connection)
    assert logins.refused == 1
    connection.close.assert_called_once_with("its certificate names nobody: not an X.509 certificate")


async def test_rights_are_those_of_whom_a_certificate_names(start_secure: StartNode, files: Files) -> None:
    """Here that is a super user, and nobody else has rights."""
    node = await start_secure(
        ssl_client_auth="requested",
        ssl_principal_mapping_rules="RULE:^OU=.*$/owner/",
        authorizer_class_name=STANDARD_AUTHORIZER,
        super_users="User:owner",
    )
    async with Admin(servers(node), security=security(files, ssl_keystore_location=files.client)) as admin:
        await admin.create_topic("t")
        assert [each.name for each in await admin.list_topics()] == ["t"]
    async with Admin(servers(node), security=security(files)) as admin:
        assert await admin.list_topics() == []


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


async def test_the_bound_holds_when_many_come_at_once(start_secure: StartNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one turn of the loop, before any that is turned away has ended."""
    monkeypatch.setattr(arrivals, "ARRIVALS_MAX", 5)
    node = await start_secure()
    listener = listener_of(node, "SSL")
    burst = [socket.create_connection(listener.endpoint) for _ in range(50)]  # without a turn in between
    for each in burst:
        each.setblocking(False)
    turned_away: set[int] = set()

    def look() -> bool:
        assert listener.arriving_count <= 5
        turned_away.update(number for number, each in enumerate(burst) if has_ended(each))
        return len(turned_away) == 45

    await eventually(look, "all but the last to be turned away")
    assert listener.arriving_count == 5
    assert turned_away == set(range(45)), "the oldest"
    for each in burst:
        each.close()


async def test_handshakes_that_are_begun_leave_room_for_connections(start_secure: StartNode, files: Files) -> None:
    node = await start_secure(max_connections=20)  # ten for each of two listeners
    left = [await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port) for _ in range(30)]
    async with Admin(servers(node), security=security(files)) as admin:
        assert await admin.describe_cluster()
    for _, writer in left:
        writer.close()


async def test_handshakes_that_are_begun_count_for_their_address(start_secure: StartNode, files: Files) -> None:
    node = await start_secure(max_connections_per_ip=3)
    port = listener_of(node, "SSL").endpoint.port
    left = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
    reader, writer = left.pop()
    assert await reader.read() == b"", "one too many"
    writer.close()
    for _, each in left[1:]:
        each.close()
    await eventually(lambda: listener_of(node, "SSL").arriving_count == 1, "the others to have gone")
    for _ in range(3):  # each takes two places, one after the other
        async with Admin(servers(node), security=security(files)) as admin:
            assert await admin.describe_cluster()
    left[0][1].close()


@pytest.mark.parametrize(
    ("has_begun", "why"),
    [(False, "nothing came within"), (True, "handshake is taking longer")],
    ids=["silent", "begun"],
)
async def test_a_handshake_that_is_not_finished_ends(
    has_begun: bool, why: str, start_secure: StartNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "HANDSHAKE_TIMEOUT_S", 0.1)
    node = await start_secure()
    sent = first_message() if has_begun else b""
    with capture_logs() as logs, socket.create_connection(listener_of(node, "SSL").endpoint) as client:
        client.sendall(sent)  # the node has no turn before
        await eventually(lambda: any(why in str(each.get("why")) for each in logs), "a line")


def first_message() -> bytes:
    sent = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost").do_handshake()
    return sent.read()


async def test_a_node_stops_while_somebody_shakes_hands(start_secure: StartNode) -> None:
    node = await start_secure()
    reader, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port)
    await eventually(lambda: listener_of(node, "SSL").arriving_count == 1, "the connection to be there")
    await node.stop()
    assert await reader.read() == b""
    writer.close()
