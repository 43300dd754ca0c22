"""Nodes that speak TLS to each other: each needs a certificate, and the cluster's secret besides."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from broker_node import ANY_PORTS, CLUSTER_ID, SECRET, eventually, listener_of
from broker_tls import Files, servers
from captured_logs import capture_logs

from minikafka.broker.node import Node
from minikafka.broker.tls import Tls
from minikafka.client import Admin
from minikafka.client.admin.configs import BROKER_RESOURCE
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.net.control import ControlLink
from minikafka.net.identity import Identity, plain
from minikafka.net.peer import PeerConnection

StartNode = Callable[..., Awaitable[Node]]
ENCRYPTED = "CONTROLLER:SSL,REPLICATION:SSL"
OTHER_ID = 2


@pytest.fixture
async def node(start_secure: StartNode) -> Node:
    return await start_secure(listeners=ANY_PORTS, listener_security_protocol_map=ENCRYPTED)


def other(files: Files, *, secret: bytes = SECRET, **settings: Any) -> Identity:
    """Another node's, with the settings that it would have."""
    named = {
        "listeners": ANY_PORTS,
        "listener.security.protocol.map": ENCRYPTED,
        "ssl.keystore.location": files.node,
        "ssl.truststore.location": files.authority,
    } | {name.replace("_", "."): value for name, value in settings.items()}
    return Identity(CLUSTER_ID, OTHER_ID, secret, lambda: os.urandom(32), Tls(BrokerConfig(named)).dialling)


async def reach(node: Node, who: Identity) -> None:
    """Both ports."""
    connection = await PeerConnection.open(listener_of(node, "REPLICATION").endpoint, who, node.config.node_id)
    connection.close()
    link = ControlLink(who, node.config.node_id, listener_of(node, "CONTROLLER").endpoint)
    with pytest.raises(KafkaError, match="no control method"):
        await link.call("nothing", None)
    link.close()


async def test_who_has_a_certificate_and_the_secret_is_a_node(node: Node, files: Files) -> None:
    await reach(node, other(files))


async def test_a_certificate_alone_makes_nobody_a_node(node: Node, files: Files) -> None:
    with pytest.raises(KafkaError, match="SASL_AUTHENTICATION_FAILED"):
        await reach(node, other(files, secret=b"not the secret of the cluster"))


async def test_the_secret_alone_makes_nobody_a_node(node: Node, files: Files) -> None:
    with capture_logs() as logs:
        with pytest.raises(OSError):  # noqa: PT011 - whichever comes first
            await reach(node, Identity(CLUSTER_ID, OTHER_ID, SECRET, lambda: os.urandom(32), plain))
        closed = await eventually(lambda: [each for each in logs if each["event"] == "connection closed"], "a line")
    assert "it does not speak TLS" in closed[0]["why"]


@pytest.mark.parametrize(
    ("setting", "ours", "theirs"),
    [
        ("ssl_keystore_location", "", "its certificate is refused"),
        ("ssl_truststore_location", "its certificate is refused", ""),
    ],
)
async def test_certificates_are_checked_on_both_sides(
    setting: str, ours: str, theirs: str, node: Node, files: Files
) -> None:
    """A failure is said when it comes again, and then no more."""
    foreign = {
        "ssl_keystore_location": files.of("127.0.0.1", by="foreign"),
        "ssl_truststore_location": files.authority_of("foreign"),
    }
    who = other(files, **{setting: foreign[setting]})
    with capture_logs() as logs:
        for _ in range(4):
            with pytest.raises(OSError):  # noqa: PT011 - TLS 1.3 tells it early or late
                await reach(node, who)
        said = [each for each in logs if each["event"] == "node not reached over TLS"]
        if theirs:
            closed = await eventually(lambda: [each for each in logs if each["event"] == "connection closed"], "a line")
            assert theirs in closed[0]["why"]
    assert len(said) == 1
    assert ours in said[0]["why"]
    assert (said[0]["listener"], said[0]["peer"]) == ("REPLICATION", node.config.node_id)


async def test_who_accepts_knows_no_host_to_look_for(node: Node, files: Files) -> None:
    await reach(node, other(files, ssl_keystore_location=files.of("another.host")))


async def test_a_node_at_another_host_than_its_certificate_says_is_not_dialled(
    start_secure: StartNode, files: Files
) -> None:
    node = await start_secure(
        listeners=ANY_PORTS, listener_security_protocol_map=ENCRYPTED, ssl_keystore_location=files.of("another.host")
    )
    with pytest.raises(OSError, match="IP address mismatch"):
        await reach(node, other(files))
    await reach(node, other(files, ssl_endpoint_identification_algorithm=""))


async def test_a_node_takes_up_nothing_that_others_would_refuse(node: Node, files: Files) -> None:
    """Nobody could reach it any more, to take it back."""
    yesterday = datetime.now(UTC) - timedelta(days=1)
    async with Admin(servers(node, "CLIENT")) as admin:
        for name, path, why in (
            (
                "ssl.keystore.location",
                files.of("localhost", "127.0.0.1", not_after=yesterday),
                "certificate has expired",
            ),
            ("ssl.keystore.location", files.of("127.0.0.1", by="foreign"), "unable to get local issuer certificate"),
            ("ssl.keystore.location", files.of("another.host"), "IP address mismatch"),
            ("ssl.truststore.location", files.authority_of("foreign"), "unable to get local issuer certificate"),
        ):
            with pytest.raises(KafkaError, match=f"would refuse .*: .*{why}") as raised:
                await admin.alter_resource(BROKER_RESOURCE, "1", {name: path})
            assert raised.value.code is ErrorCode.INVALID_CONFIG
    await reach(node, other(files))
