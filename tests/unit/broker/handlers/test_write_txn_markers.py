from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from broker_client import NOW_MS, Client, batch
from broker_node import create_topic, eventually, led

from minikafka.broker.handlers import write_txn_markers
from minikafka.broker.node import Node
from minikafka.broker.replicas import StagedMarker
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.records.batch import iter_batches, parse_header
from minikafka.records.control import EndTxnMarker
from minikafka.storage.snapshots import marker_in
from minikafka.wire.api import ApiKey
from minikafka.wire.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from minikafka.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

StartNode = Callable[..., Awaitable[Node]]
Join = Callable[[Node], Awaitable[Node]]
Dial = Callable[..., Awaitable[Client]]

ORDERS = TopicPartition("orders", 0)
NOWHERE = TopicPartition("nowhere", 0)
VERSIONS = ApiKey.WRITE_TXN_MARKERS.versions
PRODUCER = 7


@pytest.fixture
async def coordinator(node: Node) -> AsyncIterator[Client]:
    """Another node's."""
    client = await Client.connect_as_node(node)
    yield client
    client.close()


def write(node: Node, epoch: int = 3, *, partition: TopicPartition = ORDERS, sequence: int = 0) -> None:
    """A record in a transaction, as if its coordinator had been asked."""
    data = batch(b"value", producer=(PRODUCER, epoch, sequence), is_transactional=True)
    node.replicas.stage(led(node, partition), memoryview(data), parse_header(data))
    node.replicas.commit_staged()


def marker(*partitions: TopicPartition, epoch: int = 3, commits: bool = True, **how: int) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=PRODUCER,
        producer_epoch=epoch,
        transaction_result=commits,
        coordinator_epoch=how.get("coordinator_epoch", 5),
        transaction_version=how.get("version", 0),
        topics=[WritableTxnMarkerTopic(name=tp.topic, partition_indexes=[tp.partition]) for tp in partitions],
    )


async def end(client: Client, *markers: WritableTxnMarker, version: int | None = None) -> list[int]:
    """The errors, in order."""
    answer = await client.ask(WriteTxnMarkersRequest(markers=list(markers)), version)
    assert [one.producer_id for one in answer.markers] == [one.producer_id for one in markers]
    return [one.error_code for told in answer.markers for topic in told.topics for one in topic.partitions]


@pytest.mark.spec("T25")
@pytest.mark.parametrize("commits", [True, False])
@pytest.mark.parametrize("version", range(VERSIONS.first, VERSIONS.last + 1))
async def test_a_marker_ends_a_transaction(node: Node, coordinator: Client, version: int, commits: bool) -> None:
    await create_topic(node, "orders")
    write(node)
    log = led(node, ORDERS).log
    assert log.last_stable_offset(1) == 0
    assert await end(coordinator, marker(ORDERS, commits=commits), version=version) == [0]
    assert log.last_stable_offset(2) == 2
    data = log.read(1, 1_000).read()
    (_, header), *_ = iter_batches(data)
    assert marker_in(data, header) == EndTxnMarker(commits, 5)
    assert (header.producer_id, header.producer_epoch, header.base_offset) == (PRODUCER, 3, 1)


@pytest.mark.spec("T25")
async def test_each_partition_that_is_refused_says_why(node: Node, coordinator: Client) -> None:
    await create_topic(node, "orders")
    write(node)
    assert await end(
        coordinator,
        marker(ORDERS, NOWHERE, epoch=2),
        marker(ORDERS, version=2),
        marker(ORDERS, epoch=4, version=2),
        marker(ORDERS, epoch=4, version=2),
        marker(ORDERS, epoch=4, coordinator_epoch=4),
    ) == [
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_PRODUCER_EPOCH,  # of its records: the transaction may have gone on since
        ErrorCode.NONE,
        ErrorCode.NONE,  # the same once more
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ]
    assert led(node, ORDERS).log.log_end_offset == 3


async def test_markers_of_many_partitions_are_written_in_portions(
    node: Node, coordinator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_txn_markers, "MARKERS_AT_ONCE", 2)
    await create_topic(node, "orders", partitions=5)
    partitions = [TopicPartition("orders", index) for index in range(5)]
    for tp in partitions:
        write(node, partition=tp)
    assert await end(coordinator, marker(*partitions)) == [0] * 5
    assert {led(node, tp).log.last_stable_offset(2) for tp in partitions} == {2}


@pytest.mark.spec("T25")
async def test_the_answer_waits_for_the_replicas(start_node: StartNode, join: Join, dial: Dial) -> None:
    leader = await start_node()
    follower = await join(leader)
    await create_topic(leader, "orders", replicas=[[1, 2]])
    client = await dial(leader)
    told: list[StagedMarker] = []
    leader.replicas.marker_listeners[ORDERS] = told.append
    write(leader)
    assert await end(client, marker(ORDERS, commits=False, coordinator_epoch=0)) == [0]
    assert told == [StagedMarker(1, PRODUCER, 3, False)]
    assert led(leader, ORDERS).high_watermark == 2
    copy = follower.replicas.get(ORDERS)
    assert copy is not None
    assert copy.log.log_end_offset == 2
    asked = DescribeProducersRequest(topics=[TopicRequest(name="orders", partition_indexes=[0])])
    (known,) = (await (await dial(follower)).ask(asked)).topics[0].partitions[0].active_producers
    assert (known.producer_id, known.current_txn_start_offset) == (PRODUCER, -1)
    await eventually(lambda: copy.log.last_stable_offset(copy.high_watermark) == 2, "the follower to know it")


@pytest.mark.spec("T27")
async def test_an_operator_aborts_what_is_open_and_nothing_else(node: Node, client: Client) -> None:
    """By the epochs that are described: others would keep living producers and coordinators out."""
    await create_topic(node, "orders")
    abort = marker(ORDERS, commits=False, coordinator_epoch=0)
    assert await end(client, abort) == [ErrorCode.INVALID_TXN_STATE]  # of nobody
    write(node)
    assert await end(
        client,
        marker(ORDERS, coordinator_epoch=0),
        marker(ORDERS, commits=False, coordinator_epoch=0, epoch=2),
        marker(ORDERS, commits=False, coordinator_epoch=0, epoch=4),
        marker(ORDERS, commits=False, coordinator_epoch=1),
    ) == [
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    ]
    log = led(node, ORDERS).log
    assert log.log_end_offset == 1
    assert await end(client, abort) == [0]
    assert (log.log_end_offset, log.last_stable_offset(2)) == (2, 2)
    assert await end(client, abort) == [ErrorCode.INVALID_TXN_STATE]  # it is over
    assert log.log_end_offset == 2


async def test_producers_are_described(node: Node, client: Client, coordinator: Client) -> None:
    await create_topic(node, "orders")
    asked = DescribeProducersRequest(
        topics=[TopicRequest(name="orders", partition_indexes=[0]), TopicRequest(name="nowhere", partition_indexes=[0])]
    )
    write(node)
    write(node, sequence=1)
    answer = await client.ask(asked)
    there, nowhere = (topic.partitions[0] for topic in answer.topics)
    assert there.active_producers == [
        ProducerState(
            producer_id=PRODUCER,
            producer_epoch=3,
            last_sequence=1,
            last_timestamp=NOW_MS,
            coordinator_epoch=-1,
            current_txn_start_offset=0,
        )
    ]
    assert nowhere.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await end(coordinator, marker(ORDERS)) == [0]
    (ended,) = (await client.ask(asked)).topics[0].partitions[0].active_producers
    assert (ended.coordinator_epoch, ended.current_txn_start_offset, ended.last_sequence) == (5, -1, 1)
