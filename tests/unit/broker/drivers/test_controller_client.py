"""How many requests of clients are under way to the controller, and that a broker's own are not among them."""

from __future__ import annotations

import asyncio
import random

import pytest
from broker_node import in_time, turns

from minikafka.broker.drivers import controller_client as client_module
from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.errors import ErrorCode, KafkaError
from minikafka.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from minikafka.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from minikafka.wire.schema import Message

CREATE = CreateTopicsRequest()
OWN = AllocateProducerIdsRequest(broker_id=1, broker_epoch=1)
IDS = AllocateProducerIdsResponse(producer_id_start=0, producer_id_len=1000)


class Controller:
    """Answers requests when it is told to."""

    def __init__(self) -> None:
        self.at_once = 0
        self.most_at_once = 0
        self.gate = asyncio.Event()

    async def handle(self, request: Message) -> Message:
        if request is OWN:
            return IDS
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await self.gate.wait()
        self.at_once -= 1
        return CreateTopicsResponse()


@pytest.fixture
async def controller() -> Controller:
    return Controller()


@pytest.fixture
async def client(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> ControllerClient:
    monkeypatch.setattr(client_module, "REQUESTS_AT_ONCE", 2)
    monkeypatch.setattr(client_module, "REQUESTS_MAX", 5)
    return ControllerClient(1, controller, {}, lambda: 1, random.Random(1))


async def test_requests_wait_for_their_turn_and_too_many_are_refused(
    client: ControllerClient, controller: Controller
) -> None:
    loop = asyncio.get_running_loop()
    calls = [loop.create_task(client.call(CREATE, CreateTopicsResponse, timeout_s=60)) for _ in range(5)]
    await turns()
    assert controller.at_once == 2
    with pytest.raises(KafkaError, match="5 requests wait for the controller already; try again later") as refused:
        await client.call(CREATE, CreateTopicsResponse, timeout_s=60)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    controller.gate.set()
    await in_time(asyncio.gather(*calls))
    assert controller.most_at_once == 2
    await in_time(client.call(CREATE, CreateTopicsResponse, timeout_s=60))


async def test_what_a_broker_asks_for_itself_waits_for_no_client(
    client: ControllerClient, controller: Controller
) -> None:
    loop = asyncio.get_running_loop()
    calls = [loop.create_task(client.call(CREATE, CreateTopicsResponse, timeout_s=60)) for _ in range(5)]
    await turns()
    assert await in_time(client.call(OWN, AllocateProducerIdsResponse, timeout_s=60)) == IDS
    controller.gate.set()
    await in_time(asyncio.gather(*calls))


async def test_a_turn_that_does_not_come_in_time_is_a_refusal(client: ControllerClient, controller: Controller) -> None:
    loop = asyncio.get_running_loop()
    calls = [loop.create_task(client.call(CREATE, CreateTopicsResponse, timeout_s=60)) for _ in range(2)]
    await turns()
    with pytest.raises(KafkaError, match=r"busy for 0\.001 s; try again later") as refused:
        await client.call(CREATE, CreateTopicsResponse, timeout_s=0.001)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    controller.gate.set()
    await in_time(asyncio.gather(*calls))
