"""Row C3 from end to end: who writes while a node stops in order hears of nothing that a retry does not mend."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from broker_client import Client, values_in
from broker_node import Cluster, create_topic, eventually, in_time, led, listener_of

from minikafka.broker.node import Node
from minikafka.client.producer import Producer
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.net.channel import ChannelClosedError

Dial = Callable[..., Awaitable[Client]]

REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2], [2, 1, 3], [3, 2, 1]]
PARTITIONS = [TopicPartition("orders", index) for index in range(len(REPLICAS))]


async def started(cluster: Cluster) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=REPLICAS, min_insync_replicas=2)
    await eventually(lambda: all(leads_its_own(node) for node in cluster.nodes.values()), "every leader to lead")


def leads_its_own(node: Node) -> bool:
    """Does it lead what metadata says that it leads, and has it heard of the topic?"""
    states = [(tp, node.image.partition(tp)) for tp in PARTITIONS]
    return all(state is not None and (state.leader != node.config.node_id or leads(node, tp)) for tp, state in states)


def leads(node: Node, tp: TopicPartition) -> bool:
    partition = node.replicas.get(tp)
    return partition is not None and partition.leader is not None


def heirs_lead(cluster: Cluster, leaving: int) -> bool:
    """Does every other node know of another leader for each partition, and does that one lead?"""
    others = {node_id: node for node_id, node in cluster.nodes.items() if node_id != leaving}
    for tp in PARTITIONS:
        for node in others.values():
            state = node.image.partition(tp)
            if state is None or state.leader not in others or not leads(others[state.leader], tp):
                return False
    return True


def watch_closing(cluster: Cluster, node: Node) -> list[tuple[str, bool]]:
    """Notes, as each of the node's listeners is told to close, whether all that it led is led by others."""
    seen: list[tuple[str, bool]] = []
    for listener in node.listeners:

        def close(listener: object = listener, act: Callable[[], Awaitable[None]] = listener.close) -> Awaitable[None]:
            seen.append((listener.name, heirs_lead(cluster, node.config.node_id)))  # type: ignore[attr-defined]
            return act()

        listener.close = close  # type: ignore[method-assign,assignment]
    return seen


@asynccontextmanager
async def writing(cluster: Cluster) -> AsyncIterator[list[list[bytes]]]:
    """A producer with acks=all under way; what was acknowledged, by partition and in its order. Any error is raised."""
    acknowledged: list[list[bytes]] = [[] for _ in PARTITIONS]
    servers = ",".join(str(listener_of(node).endpoint) for node in cluster.nodes.values())

    async def write(producer: Producer, partition: int) -> None:
        for number in range(1_000_000):
            value = b"%d" % number
            await producer.send_and_wait("orders", value, partition=partition)
            acknowledged[partition].append(value)
            await asyncio.sleep(0.002)

    async with Producer(servers, delivery_timeout_ms=20_000) as producer, asyncio.TaskGroup() as writers:
        tasks = [writers.create_task(write(producer, tp.partition)) for tp in PARTITIONS]
        yield acknowledged
        for task in tasks:
            task.cancel()


def counts(acknowledged: list[list[bytes]]) -> list[int]:
    return [len(values) for values in acknowledged]


async def more(acknowledged: list[list[bytes]], count: int = 5) -> None:
    """Wait until each partition has that many more."""
    enough = [before + count for before in counts(acknowledged)]
    await eventually(
        lambda: all(now >= wanted for now, wanted in zip(counts(acknowledged), enough, strict=True)), "more records"
    )


async def written(cluster: Cluster, dial: Dial, tp: TopicPartition) -> list[bytes]:
    """Everything that consumers read of a partition."""
    node = next(node for node in cluster.nodes.values() if leads(node, tp))
    client = await dial(node)
    values: list[bytes] = []
    while len(values) < led(node, tp).high_watermark:
        fetched = await client.fetch("orders", len(values), partition=tp.partition)
        assert not fetched.error_code
        values += values_in(fetched.records)
    return values


@pytest.mark.spec("C3")
@pytest.mark.parametrize("stops", ["the controller", "another node"])
async def test_a_node_that_stops_hands_everything_over_before_it_hangs_up(
    cluster: Cluster, dial: Dial, stops: str
) -> None:
    await started(cluster)
    controller = cluster.controller.config.node_id
    leaving = controller if stops == "the controller" else controller % 3 + 1
    node = cluster.nodes[leaving]
    seen = watch_closing(cluster, node)
    async with writing(cluster) as acknowledged:
        await more(acknowledged)
        await in_time(node.stop())
        del cluster.nodes[leaving]
        await more(acknowledged)
    assert seen == [("CONTROLLER", True), ("REPLICATION", True), ("CLIENT", True)]
    for tp in PARTITIONS:
        values = await written(cluster, dial, tp)
        expected = acknowledged[tp.partition]
        assert values[: len(expected)] == expected, "in order, and nothing twice"
        assert len(values) <= len(expected) + 1, "what was under way at the end"


@pytest.mark.spec("C3")
async def test_all_that_the_leaving_node_says_is_try_elsewhere(cluster: Cluster, dial: Dial) -> None:
    """Not even a request that is parked in its purgatory is left without an answer."""
    await started(cluster)
    leaving = next(node_id for node_id in cluster.nodes if node_id != cluster.controller.config.node_id)
    node = cluster.nodes[leaving]
    (index,) = [tp.partition for tp in PARTITIONS if leads(node, tp)][:1]
    client = await dial(node)
    answers: list[tuple[int, int]] = []
    unanswered = 0

    async def pipeline() -> None:
        nonlocal unanswered
        while True:
            try:
                answer = await client.produce("orders", b"x", partition=index)
                answers.append((answer.error_code, answer.base_offset))
            except (ChannelClosedError, OSError):
                unanswered += 1
                return

    writers = [asyncio.get_running_loop().create_task(pipeline()) for _ in range(5)]
    await eventually(lambda: len(answers) > 20, "the load")
    await in_time(node.stop())
    del cluster.nodes[leaving]
    await in_time(asyncio.gather(*writers))
    errors = [error for error, _ in answers]
    assert set(errors) <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    first = errors.index(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert ErrorCode.NONE not in errors[first + len(writers) :], "it led until it led no more"
    tp = PARTITIONS[index]
    acknowledged = {offset for error, offset in answers if not error}
    assert len(acknowledged) == errors.count(ErrorCode.NONE)
    heir = next(node for node in cluster.nodes.values() if leads(node, tp))
    assert max(acknowledged) < led(heir, tp).log.log_end_offset, "what it acknowledged is there"


@pytest.mark.spec("C3")
async def test_a_rolling_restart_goes_unnoticed(cluster: Cluster, dial: Dial) -> None:
    await started(cluster)
    async with writing(cluster) as acknowledged:
        for node_id in cluster.node_ids:
            await more(acknowledged)
            node = cluster.nodes[node_id]
            seen = watch_closing(cluster, node)
            await in_time(node.stop())
            assert all(is_handed_over for _, is_handed_over in seen)
            await cluster.start(node_id)
            await cluster.ready()
            back = cluster.nodes[node_id]
            await eventually(lambda back=back: has_everything_in_sync(back), "every replica to be in sync")  # type: ignore[misc]
        await more(acknowledged)
    for tp in PARTITIONS:
        expected = acknowledged[tp.partition]
        assert (await written(cluster, dial, tp))[: len(expected)] == expected


def has_everything_in_sync(node: Node) -> bool:
    states = [node.image.partition(tp) for tp in PARTITIONS]
    return all(state is not None and set(state.isr) == {1, 2, 3} for state in states)
