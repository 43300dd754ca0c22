"""Calls of a node to others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from minikafka.broker import peers as peers_module
from minikafka.broker.peers import Peers
from minikafka.errors import KafkaError
from minikafka.model import Endpoint
from minikafka.net.identity import Identity
from minikafka.net.peer import PeerConnection
from minikafka.wire.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

HERE = Endpoint("127.0.0.1", 1)


def peers(endpoint: Endpoint | None = HERE) -> Peers:
    identity = Identity("c", 1, b"a secret of some length", lambda: b"n" * 32)
    return Peers(identity, lambda _node_id: endpoint, lambda _node_id: None)


async def ask(one: Peers, timeout_s: float = 5.0) -> WriteTxnMarkersResponse:
    return await one.call(2, WriteTxnMarkersRequest(), WriteTxnMarkersResponse, timeout_s=timeout_s)


async def test_those_who_wait_for_a_connection_share_its_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 0

    async def fails(*_what: Any) -> PeerConnection:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0.01)
        raise ConnectionRefusedError

    monkeypatch.setattr(peers_module.PeerConnection, "open", fails)
    one = peers()
    outcomes = await asyncio.gather(*(ask(one) for _ in range(20)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ConnectionRefusedError] * 20
    assert attempts == 1
    with pytest.raises(ConnectionRefusedError):
        await ask(one)
    assert attempts == 2, "whoever comes later tries again"


async def test_the_time_of_a_call_has_that_of_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(*_what: Any) -> PeerConnection:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(peers_module.PeerConnection, "open", hangs)
    with pytest.raises(TimeoutError):
        await ask(peers(), timeout_s=0.01)


async def test_a_node_that_is_not_registered_is_not_called() -> None:
    with pytest.raises(KafkaError, match="not registered"):
        await ask(peers(None))
