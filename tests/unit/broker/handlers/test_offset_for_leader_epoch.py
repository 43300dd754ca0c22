from __future__ import annotations

import pytest
from broker_client import Client
from broker_node import create_topic, led
from broker_replicas import told

from minikafka.broker.node import Node
from minikafka.errors import ErrorCode
from minikafka.model import TopicPartition
from minikafka.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
async def orders(node: Node, client: Client) -> None:
    """Epoch 0 holds offsets 0 and 1, epoch 3 holds 2; epoch 3 is the current one."""
    await create_topic(node, "orders")
    await client.produce("orders", b"a", b"b")
    partition = led(node, ORDERS)
    partition.replica.leader_epoch = 3
    await client.produce("orders", b"c")


async def ask(
    client: Client, epoch: int, *, topic: str = "orders", current: int = -1, version: int = 4, replica_id: int = -1
) -> tuple[int, int, int]:
    """(error, epoch, end offset)."""
    wanted = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=replica_id, topics=[OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    )
    answer = (await client.ask(request, version)).topics[0].partitions[0]
    return answer.error_code, answer.leader_epoch, answer.end_offset


@pytest.mark.spec("E2")
@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("epoch", "expected"), [(-1, (0, -1, -1)), (0, (0, 0, 2)), (1, (0, 0, 2)), (3, (0, 3, 3)), (4, (0, -1, -1))]
)
async def test_where_an_epoch_ended(client: Client, epoch: int, expected: tuple[int, int, int]) -> None:
    for version in (2, 3, 4):
        assert await ask(client, epoch, version=version) == expected


@pytest.mark.spec("E4")
@pytest.mark.usefixtures("orders")
async def test_it_serves_consumers_but_nobody_who_pretends_to_be_a_follower(client: Client) -> None:
    assert await ask(client, 0, replica_id=-1) == (0, 0, 2)
    assert await ask(client, 0, replica_id=2) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1, -1)


@pytest.mark.spec("E3")
@pytest.mark.spec("E6")
@pytest.mark.usefixtures("orders")
async def test_errors_come_per_partition(node: Node, client: Client) -> None:
    assert (await ask(client, 0, topic="nowhere"))[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert (await ask(client, 0, current=2))[0] == ErrorCode.FENCED_LEADER_EPOCH
    assert (await ask(client, 0, current=4))[0] == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert (await ask(client, 0, current=3)) == (0, 0, 2)
    partition = led(node, ORDERS)
    told(partition, 2, 4)
    assert (await ask(client, 0))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.replica.on_storage_failed()
    assert (await ask(client, 0))[0] == ErrorCode.KAFKA_STORAGE_ERROR
    node.replicas.remove(ORDERS)  # the cluster knows it, this node has no replica
    assert (await ask(client, 0)) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1, -1)
