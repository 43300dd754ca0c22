"""An application of FastStream, tested as its users would: on the fixtures, and its leader dies meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from faststream import AckPolicy
from faststream.confluent import KafkaBroker as ConfluentBroker
from faststream.kafka import KafkaBroker

from minikafka.client import Admin
from minikafka.model import TopicPartition
from minikafka.testing import MiniKafka


@pytest.mark.parametrize("broker_type", [KafkaBroker, ConfluentBroker])
@pytest.mark.minikafka_topic(partitions=1)
async def test_an_application_goes_on_when_its_leader_dies(
    broker_type: Any, minikafka: MiniKafka, minikafka_topic: str
) -> None:
    broker = broker_type(minikafka.bootstrap_servers.split(","))
    answered: asyncio.Queue[int] = asyncio.Queue()
    orders, answers = minikafka_topic, f"{minikafka_topic}-answers"

    @broker.subscriber(orders, group_id=orders, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
    @broker.publisher(answers)
    async def handle(order: dict[str, int]) -> dict[str, int]:
        return {"answered": order["number"]}

    @broker.subscriber(answers, group_id=answers, auto_offset_reset="earliest", ack_policy=AckPolicy.NACK_ON_ERROR)
    async def read(answer: dict[str, int]) -> None:
        await answered.put(answer["answered"])

    async with asyncio.timeout(600), broker:
        await broker.start()
        for number in range(3):
            await broker.publish({"number": number}, orders)
            while await asyncio.wait_for(answered.get(), 60) != number:
                pass  # an earlier one, again: what was handled just before its leader died
            if number < 2:
                await asyncio.to_thread(minikafka.kill, minikafka.leader_of(orders))
                await asyncio.to_thread(minikafka.heal)
        if broker_type is KafkaBroker:
            # aiokafka's consumer never ends its stop() if it has not found its coordinator again since that died.
            # FastStream does not wait for librdkafka's commits, nor send one again: when it stops it commits anew.
            for topic in (orders, answers):
                await all_is_committed(minikafka.bootstrap_servers, topic)
    told = await asyncio.to_thread(minikafka.records, answers)
    assert {record.value for record in told} == {b'{"answered":%d}' % number for number in range(3)}


async def all_is_committed(servers: str, topic: str) -> None:
    """By the group of that name. What it read last it read after all kills."""
    partition = TopicPartition(topic, 0)
    async with Admin(servers) as admin:
        end = (await admin.list_offsets({partition: -1}))[partition]
        committed = None
        while committed is None or committed.offset < end.offset:
            await asyncio.sleep(0.1)
            committed = (await admin.group_offsets(topic)).get(partition)
