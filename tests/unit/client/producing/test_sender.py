"""When the sender looks for batches, what it says of one that it never sent, and whom it asks for a producer id."""

from __future__ import annotations

import asyncio
import random
import re
from itertools import chain

import pytest
from scripted_cluster import HANG, ScriptedCluster

from minikafka.client import Producer, RecordMetadata
from minikafka.client.connections import Connections
from minikafka.client.metadata import Metadata
from minikafka.client.producing import sender as sender_module
from minikafka.client.producing.accumulator import Accumulator
from minikafka.client.producing.sender import ALL_IN_SYNC, Sender, SendSettings
from minikafka.client.records import Delivery
from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import Compression, TopicPartition
from minikafka.net.tasks import TaskOwner
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

T0 = TopicPartition("t", 0)
LINGER_MS = 20
DELIVERY_TIMEOUT_MS = 5_000
NO_ID = InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.parametrize("turn", [(LINGER_MS - 1, LINGER_MS), (LINGER_MS - 1, LINGER_MS + 7)])
async def test_a_batch_whose_linger_ends_while_the_sender_looks_is_sent(
    cluster: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, turn: tuple[int, int]
) -> None:
    """It is not due when the sender looks for batches, and is when it looks how long to sleep: it slept for
    ``delivery_timeout_ms``, and the batch failed unsent. Something has to wake the sender just then, a producer id say.
    """
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    readings = chain(turn)
    last_ms = turn[-1]
    monkeypatch.setattr(sender_module, "_now_ms", lambda: next(readings, last_ms + int((loop.time() - began_s) * 1000)))
    failures: list[BaseException] = []
    tasks = TaskOwner("test", lambda _name, error: failures.append(error))
    rng = random.Random(1)
    connections = Connections(cluster.servers, client_id="test", rng=rng)
    await connections.refresh(["t"])
    accumulator: Accumulator[Delivery] = Accumulator(
        batch_bytes=1000, linger_ms=LINGER_MS, buffer_bytes=1000, compression=Compression.NONE, sequences=None
    )
    sender = Sender(
        connections,
        Metadata(connections, tasks, rng, lambda: None),
        accumulator,
        None,
        None,
        tasks,
        rng,
        SendSettings(ALL_IN_SYNC, 5_000, DELIVERY_TIMEOUT_MS, 1_000_000),
        lambda _where: None,
        lambda: None,
    )
    delivery: Delivery = loop.create_future()
    accumulator.append(T0, None, b"v", 5, (), delivery, now_ms=0)
    sender.start()
    assert await delivery == RecordMetadata("t", 0, 0, 5)
    await tasks.close()
    await connections.close()
    assert not failures


# -- the producer id --------------------------------------------------------------------------------------------------


async def test_a_broker_that_gives_no_id_is_not_the_one_to_be_asked_again(cluster: ScriptedCluster) -> None:
    """It answers, so its connection is as good as any; but as long as it cannot reach the controller it has no ids."""
    refusing: list[int] = []

    def refuse(node_id: int, request: InitProducerIdRequest) -> InitProducerIdResponse | None:
        refusing[:] = refusing or [node_id]
        return NO_ID if node_id in refusing else None

    cluster.on(ApiKey.INIT_PRODUCER_ID, refuse)
    async with Producer(cluster.servers) as producer:
        assert (await producer.send_and_wait("t", b"a", partition=0)).offset == 0
    assert [len(cluster.asked(InitProducerIdRequest, node_id)) for node_id in (*refusing, 3 - refusing[0])] == [1, 1]
    assert cluster.producer_ids == 1


# -- what a batch that was never sent is told -------------------------------------------------------------------------


def unsent(why: str) -> str:
    return re.escape(f"a batch for t-0 was not acknowledged within 0.1 s: it could not be sent: {why}")


async def test_no_producer_id(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.INIT_PRODUCER_ID, lambda node_id, request: NO_ID)
    async with Producer(cluster.servers, delivery_timeout_ms=100) as producer:
        first = await producer.send("t", b"a", partition=0)
        while len(cluster.asked(InitProducerIdRequest)) < 2:  # one refusal at least has arrived, and batches expire
            await asyncio.wait((await producer.send("t", b"more", partition=1),))
        last = await producer.send("t", b"b", partition=0)
        why = "no broker returned a producer id (COORDINATOR_NOT_AVAILABLE: the broker returned no producer id)"
        with pytest.raises(KafkaError, match=unsent(why)):
            await last
        await asyncio.wait((first,))
        assert first.exception() is not None


async def test_no_answer_about_a_producer_id(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.INIT_PRODUCER_ID, lambda node_id, request: HANG)
    async with Producer(cluster.servers, delivery_timeout_ms=100) as producer:
        with pytest.raises(KafkaError, match=unsent("no broker returned a producer id (the first one has not")):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_a_partition_without_a_leader_is_the_reason_given_for_a_failed_send(cluster: ScriptedCluster) -> None:
    cluster.partition(0).lead(-1)
    async with Producer(cluster.servers, delivery_timeout_ms=100, acks=1) as producer:
        with pytest.raises(KafkaError, match=unsent("the partition has no leader (according to the brokers)")):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_a_linger_time_that_is_too_long(cluster: ScriptedCluster) -> None:
    async with Producer(cluster.servers, delivery_timeout_ms=100, acks=1, linger_ms=60_000) as producer:
        why = "batches before it, or linger_ms (60000), took all of that time"
        with pytest.raises(KafkaError, match=unsent(why)):
            await producer.send_and_wait("t", b"a", partition=0)


async def test_a_batch_behind_one_that_is_unanswered(cluster: ScriptedCluster) -> None:
    cluster.on(ApiKey.PRODUCE, lambda node_id, request: HANG)
    async with Producer(cluster.servers, delivery_timeout_ms=100, acks=1, batch_bytes=1) as producer:
        first, second = [await producer.send("t", value, partition=0) for value in (b"a", b"b")]
        with pytest.raises(KafkaError, match="attempt 1 has no response"):
            await first
        with pytest.raises(KafkaError, match=unsent("the batch before it has no response")):
            await second
