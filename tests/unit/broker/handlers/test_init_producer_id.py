from __future__ import annotations

import asyncio

import pytest
from broker_client import Client

from minikafka.broker import producer_ids
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.node import Node
from minikafka.broker.producer_ids import ProducerIds
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest


async def test_every_producer_has_its_own_id(node: Node, client: Client) -> None:
    ids = []
    for version in range(ApiKey.INIT_PRODUCER_ID.versions.first, ApiKey.INIT_PRODUCER_ID.versions.last + 1):
        answer = await client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1), version)
        assert (answer.error_code, answer.producer_epoch) == (0, 0)
        ids.append(answer.producer_id)
    assert len(set(ids)) == len(ids)
    renewed = await client.ask(InitProducerIdRequest(transactional_id=None, producer_id=ids[0], producer_epoch=3))
    assert (renewed.error_code, renewed.producer_epoch) == (0, 0)
    assert renewed.producer_id not in ids


async def test_blocks_are_used_up_and_fetched_once(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = node.parts.part(ProducerIds)
    first = await asyncio.gather(*(ids.next() for _ in range(50)))
    assert sorted(first) == list(range(first[0], first[0] + 50))
    monkeypatch.setattr(ids, "_next", ids._end - 10)
    across = await asyncio.gather(*(ids.next() for _ in range(20)))
    assert len(set(across)) == 20
    assert across == list(range(across[0], across[0] + 20)), "this node had the next block too"
    assert not set(first) & set(across)


async def test_ids_are_not_given_out_again_after_a_restart(start_node, dial) -> None:  # type: ignore[no-untyped-def]
    given = []
    for _ in range(2):
        node = await start_node()
        given += [await node.parts.part(ProducerIds).next() for _ in range(3)]
        await node.stop()
    assert len(set(given)) == 6


async def test_without_a_controller_there_is_none(node: Node, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_request: object) -> object:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")

    monkeypatch.setattr(node.control_plane.controller, "handle", never)
    monkeypatch.setattr(producer_ids, "CALL_TIMEOUT_S", 0.01)
    answer = await client.ask(InitProducerIdRequest(transactional_id=None))
    assert (answer.error_code, answer.producer_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


async def test_those_who_wait_for_a_controller_share_its_failure(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred would wait for five seconds each, one after the other."""
    asked: list[object] = []

    async def never(_self: ControllerClient, request: object, *_what: object, **_how: object) -> object:
        asked.append(request)
        await asyncio.sleep(0)
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "no controller is elected")

    ids = node.parts.part(ProducerIds)
    monkeypatch.setattr(ids, "_next", ids._end)
    monkeypatch.setattr(ControllerClient, "call", never)
    failures = await asyncio.gather(*(ids.next() for _ in range(20)), return_exceptions=True)
    assert all(isinstance(failure, KafkaError) for failure in failures)
    assert len(asked) == 1
    monkeypatch.undo()
    assert await ids.next() >= 0
