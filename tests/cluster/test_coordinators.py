"""A group whose coordinator dies goes on with another, and finds there every offset that it was told is committed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from live_cluster import PATIENCE_S, eventually, wait_until_known
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.messages.find_coordinator import FindCoordinatorRequest

TOPIC, GROUP, PARTITIONS = "work", "workers", 3


@pytest.fixture(params=["classic", "consumer"])
def consumer(cluster: LocalCluster, request: pytest.FixtureRequest) -> Iterator[Consumer]:
    """A static member of either group protocol; in the newer one the broker tells the times."""
    times = {"session.timeout.ms": 30_000, "heartbeat.interval.ms": 200} if request.param == "classic" else {}
    settings = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": GROUP,
        "group.instance.id": "static",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "group.protocol": request.param,
        "log_level": 0,
        **times,
    }
    client = Consumer(settings)
    yield client
    client.close()


def _create_topic(cluster: LocalCluster) -> None:
    """On every node. librdkafka joins a group with a topic that one node knows already, and, when it assigns partitions
    and the next node does not know it yet, gives all members none, for good."""
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(TOPIC, [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    wait_until_known(cluster, TOPIC, PARTITIONS)


def coordinator(cluster: LocalCluster) -> int:
    def ask() -> int:
        view = cluster.view()
        if view is None:
            return 0
        with Wire(cluster.layout.client_port(min(cluster.running()))) as wire:
            answer = wire.ask(FindCoordinatorRequest(key=GROUP), 2)
        alive = answer.error_code == ErrorCode.NONE and answer.node_id in view.broker_ids
        return int(answer.node_id) if alive else 0

    return eventually(ask, "a coordinator")


@pytest.mark.spec("P1", "P3")
def test_committed_offsets_survive_their_coordinator(cluster: LocalCluster, consumer: Consumer) -> None:
    _create_topic(cluster)
    assigned: list[int] = []
    consumer.subscribe([TOPIC], on_assign=lambda _consumer, partitions: assigned.append(len(partitions)))
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0})
    partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]

    def work(round_: int) -> None:
        """Every value of the round arrives, and is committed."""
        expected = {b"%d/%d" % (round_, number) for number in range(30)}
        for number, value in enumerate(sorted(expected)):
            producer.produce(TOPIC, value, partition=number % PARTITIONS)
        assert producer.flush(PATIENCE_S) == 0
        missing = set(expected)

        def step() -> bool:
            for message in consumer.consume(100, 0.1):
                if message.error() is None:
                    missing.discard(message.value())
            return not missing and _commit(consumer)

        eventually(step, f"round {round_} to be read and committed")

    work(0)
    for round_ in (1, 2):
        victim = coordinator(cluster)
        cluster.kill(victim)
        eventually(lambda victim=victim: coordinator(cluster) != victim, "another coordinator")  # type: ignore[misc]
        work(round_)
        offsets = [tp.offset for tp in consumer.committed(partitions, PATIENCE_S)]
        assert offsets == [10 * (round_ + 1)] * PARTITIONS
        cluster.start_node(victim, PATIENCE_S)
        cluster.wait_in_sync(PATIENCE_S)
    assert assigned == [PARTITIONS], "the next coordinator knows the member (KIP-345): there was no rebalance"

    cluster.kill_all()
    cluster.start(PATIENCE_S)
    coordinator(cluster)
    offsets = [tp.offset for tp in eventually(lambda: _committed(consumer, partitions), "the committed offsets")]
    assert offsets == [30] * PARTITIONS


def _commit(consumer: Consumer) -> bool:
    """False while the group is on its way to another coordinator."""
    try:
        consumer.commit(asynchronous=False)
    except KafkaException:
        return False
    return True


def _committed(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """A member that its group has lost meanwhile comes back in a poll only."""
    consumer.poll(0)
    try:
        return list(consumer.committed(partitions, 5))
    except KafkaException as error:
        print(error)  # a failing test shows what it was told in vain
        return []


@pytest.mark.spec("P1", "P6")
async def test_consumers_of_others_go_on_when_their_coordinator_dies(cluster: LocalCluster) -> None:
    """Each library knows some errors of a failover, and ends for good by one that it does not know."""
    _create_topic(cluster)
    servers = cluster.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    settings = {"group_id": GROUP, "bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    pace = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 50, "retry_backoff_ms": 50}
    seen: set[bytes] = set()
    # Without auto-commit: aiokafka 0.14 commits at its end for ever, if its coordinator has moved just then.
    async with AIOKafkaConsumer(TOPIC, **settings, **pace, enable_auto_commit=False) as consumer:

        async def read(expected: set[bytes]) -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not expected <= seen:
                    batches = await consumer.getmany(timeout_ms=100)
                    seen.update(record.value for records in batches.values() for record in records)
                await consumer.commit()

        for round_ in range(2):
            values = {b"%d/%d" % (round_, number) for number in range(30)}
            for number, value in enumerate(sorted(values)):
                producer.produce(TOPIC, value, partition=number % PARTITIONS)
            assert await asyncio.to_thread(producer.flush, PATIENCE_S) == 0
            await read(values)
            victim = await asyncio.to_thread(coordinator, cluster)
            cluster.kill(victim)
            await asyncio.to_thread(eventually, lambda victim=victim: coordinator(cluster) != victim, "another one")
            await asyncio.to_thread(cluster.start_node, victim, PATIENCE_S)
            await asyncio.to_thread(cluster.wait_in_sync, PATIENCE_S)
