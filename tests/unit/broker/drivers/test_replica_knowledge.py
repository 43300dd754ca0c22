"""Who knows what of a partition: all know its replicas, a replica its own log, the leader how far every one is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from broker_client import Client
from broker_node import Cluster, create_topic, eventually, led

from minikafka.model import TopicPartition

ORDERS = TopicPartition("orders", 0)


@pytest.mark.spec("R24")
async def test_only_replicas_have_a_log_and_only_the_leader_knows_the_others(
    cluster: Cluster, dial: Callable[..., Awaitable[Client]]
) -> None:
    await cluster.start()
    await cluster.ready()
    await create_topic(cluster.controller, "orders", replicas=[[1, 2]])
    leader, follower, other = (cluster.nodes[node_id] for node_id in (1, 2, 3))
    for node in (leader, follower, other):
        await eventually(lambda node=node: node.metadata.image.partition(ORDERS), "the partition")  # type: ignore[misc]
        partition = node.metadata.image.partition(ORDERS)
        assert partition is not None
        assert partition.replicas == (1, 2)
    await eventually(lambda: follower.replicas.get(ORDERS), "a replica")
    assert other.replicas.get(ORDERS) is None

    client = await dial(leader)
    await eventually(lambda: led(leader, ORDERS), "a leader")
    assert (await client.produce("orders", b"a", b"b")).error_code == 0
    state = led(leader, ORDERS).leader
    assert state is not None
    assert (state.high_watermark, state.log_end_offset) == (2, 2)
    assert {one.replica_id: one.log_end_offset for one in state._remotes} == {2: 2}
    replica = follower.replicas.get(ORDERS)
    assert replica is not None
    assert replica.leader is None
    assert replica.log.log_end_offset == 2
    await eventually(lambda: replica.high_watermark == 2, "the leader's high watermark")
