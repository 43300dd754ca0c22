"""Certificates are changed while the node runs: for new connections, and only to what can be used."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from broker_client import Client
from broker_node import eventually, listener_of
from broker_tls import Files, security, servers
from captured_logs import capture_logs

from minikafka.broker.node import Node
from minikafka.broker.tls import Contexts, Tls
from minikafka.client import Admin
from minikafka.client.admin.configs import ALL_BROKERS, BROKER_RESOURCE
from minikafka.config import BrokerConfig
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

StartNode = Callable[..., Awaitable[Node]]
KEY_STORE, TRUST_STORE = "ssl.keystore.location", "ssl.truststore.location"


async def presented(node: Node) -> bytes:
    """The certificate that a new connection gets."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", listener_of(node, "SSL").endpoint.port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(certificate, bytes)
    return certificate


async def change(node: Node, name: str, value: str | Path | None, broker: str | None = None) -> None:
    async with Admin(servers(node, "CLIENT")) as admin:
        who = str(node.config.node_id) if broker is None else broker
        await admin.alter_resource(BROKER_RESOURCE, who, {name: None if value is None else str(value)})


async def refusal(node: Node, name: str, value: str | Path, broker: str | None = None) -> KafkaError:
    with pytest.raises(KafkaError) as raised:
        await change(node, name, value, broker)
    return raised.value


async def test_a_new_certificate_is_for_new_connections(
    start_secure: StartNode, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await start_secure()
    readers: set[int] = set()

    def read(tls: Tls, config: BrokerConfig) -> Contexts:
        readers.add(threading.get_ident())
        return contexts_of(tls, config)

    contexts_of = Tls.contexts_of
    monkeypatch.setattr(Tls, "contexts_of", read)
    before = await presented(node)
    async with Admin(servers(node), security=security(files)) as old:
        await change(node, KEY_STORE, files.of("localhost"))
        after = await presented(node)
        assert after != before
        assert await old.describe_cluster(), "who is there stays"
        await change(node, KEY_STORE, None)
        assert await presented(node) == before, "that of the node's file again"
    assert readers
    assert threading.get_ident() not in readers, "a file may be slow, and a key encrypted"


async def test_a_file_with_something_else_in_it_is_read_when_it_is_set_again(
    start_secure: StartNode, files: Files
) -> None:
    node = await start_secure()
    before = await presented(node)
    for name in ("first", "second"):  # the second time the metadata have the setting already
        shutil.copy(files.of(name), files.node)
        assert await presented(node) == before
        await change(node, KEY_STORE, files.node)
        after = await presented(node)
        assert after != before
        before = after


async def test_clients_of_another_authority_are_let_in(start_secure: StartNode, files: Files, tmp_path: Path) -> None:
    node = await start_secure(ssl_client_auth="required")
    how = security(files, ssl_keystore_location=files.of("eve", by="other"))
    with pytest.raises(KafkaError):
        await _connects(node, how)
    await change(node, TRUST_STORE, files.authority_of("other"))
    await _connects(node, how)


async def _connects(node: Node, how: object) -> None:
    async with Admin(servers(node), security=how) as admin:  # type: ignore[arg-type]
        assert await admin.describe_cluster()


async def test_what_cannot_be_used_is_refused_and_the_old_one_stays(
    start_secure: StartNode, files: Files, tmp_path: Path
) -> None:
    node = await start_secure()
    before = await presented(node)
    missing = await refusal(node, KEY_STORE, "/nowhere/node.pem")
    assert missing.code is ErrorCode.INVALID_CONFIG
    assert "ssl.keystore.location /nowhere/node.pem: No such file or directory" in missing.message
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    assert "it must have a key and a certificate" in (await refusal(node, KEY_STORE, empty)).message
    assert "it must have certificates in PEM format" in (await refusal(node, TRUST_STORE, empty)).message
    for name in (KEY_STORE, TRUST_STORE):
        for_all = await refusal(node, name, files.node, ALL_BROKERS)
        assert for_all.code is ErrorCode.INVALID_REQUEST
    assert await presented(node) == before
    async with Admin(servers(node, "CLIENT")) as admin:
        entries = {entry.name: entry for entry in await admin.describe_resource(BROKER_RESOURCE, "1")}
    assert entries[KEY_STORE].value == files.node


async def test_the_older_request_is_looked_at_as_well(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    before = await presented(node)
    client = await Client.connect(node)
    refused, done = [await replace(client, path) for path in ("/nowhere/node.pem", files.of("localhost"))]
    assert refused.error_code == ErrorCode.INVALID_CONFIG
    assert "No such file" in (refused.error_message or "")
    assert not done.error_code
    assert await presented(node) != before


async def replace(client: Client, key_store: str) -> AlterConfigsResourceResponse:
    config = AlterableConfig(name=KEY_STORE, value=key_store)
    resource = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="1", configs=[config])
    answer: AlterConfigsResponse = await client.ask(AlterConfigsRequest(resources=[resource]))
    return answer.responses[0]


async def test_two_clients_change_a_node_at_once(start_secure: StartNode, files: Files) -> None:
    """The settings of both hold; a node that took up what each had looked at lost one of them."""
    node = await start_secure(ssl_client_auth="required")
    before = await presented(node)
    eve = security(files, ssl_keystore_location=files.of("eve", by="other"), ssl_endpoint_identification_algorithm="")
    stores = change(node, KEY_STORE, files.of("localhost")), change(node, TRUST_STORE, files.authority_of("other"))
    await asyncio.gather(*stores)
    await _connects(node, eve)
    assert await presented(node) != before


async def test_a_node_starts_with_what_was_set(start_secure: StartNode, files: Files) -> None:
    node = await start_secure()
    other = Path(files.of("localhost"))
    await change(node, KEY_STORE, other)
    expected = await presented(node)
    await node.stop()
    with capture_logs() as logs:
        node = await start_secure()
        await eventually(lambda: any(each["event"] == "certificates renewed" for each in logs), "metadata to be there")
    assert await presented(node) == expected
    await node.stop()
    os.unlink(other)
    with capture_logs() as logs:
        node = await start_secure()
        await eventually(lambda: any(each["event"] == "certificates not renewed" for each in logs), "a line")
        assert await presented(node) != expected, "that of its file, rather than none"
    assert [each["why"] for each in logs if each["event"] == "certificates not renewed"] == [
        f"ssl.keystore.location {other}: No such file or directory"
    ]
