"""SIGKILL to leaders, to the controller, to everything at once, while an idempotent producer with acks=all writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from cluster_load import TOPIC, Load
from live_cluster import (
    PATIENCE_S,
    assert_replicas_equal,
    controller_of,
    eventually,
    leader_of,
)
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster


def follower_of(cluster: LocalCluster) -> int:
    controller = controller_of(cluster)
    return next(node_id for node_id in cluster.node_ids if node_id != controller)


@pytest.mark.spec("P1", "P3", "C3", "C4")
@pytest.mark.parametrize("choose", [follower_of, controller_of], ids=["leader", "controller"])
def test_a_killed_node_costs_nothing_that_was_acknowledged(
    cluster: LocalCluster, load: Load, choose: Callable[[LocalCluster], int]
) -> None:
    """Every node leads a partition. One is killed and restarted, and then another, which leads two by now."""
    for _ in range(2):
        victim = choose(cluster)
        cluster.kill(victim)
        cluster.wait_for(
            lambda view, victim=victim: (  # type: ignore[misc]
                view.has_controller
                and victim not in view.broker_ids
                and all(partition.leader_id in view.broker_ids for partition in view.partitions)
            ),
            "the others to take over",
            PATIENCE_S,
        )
        load.wait_for_more()
        cluster.start_node(victim, PATIENCE_S)
        cluster.wait_in_sync(PATIENCE_S)
        view = cluster.view()
        assert view is not None
        assert all(victim in partition.in_sync_replicas for partition in view.partitions)
    load.wait_for_more()
    load.finish()


@pytest.mark.spec("P1", "R22", "C2")
def test_all_nodes_killed_at_once_come_back_with_everything(cluster: LocalCluster, load: Load) -> None:
    before = cluster.view()
    assert before is not None
    for _ in range(2):
        load.wait_for_more()
        cluster.kill_all()
        assert cluster.view() is None
        cluster.start(PATIENCE_S)
        load.wait_for_more()
    after = cluster.view()
    assert after is not None
    assert after.cluster_id == before.cluster_id
    load.finish()


@pytest.mark.spec("P1", "R23")
def test_two_nodes_go_on_and_one_alone_acknowledges_nothing_to_acks_all(cluster: LocalCluster) -> None:
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(TOPIC, [[1, 2, 3]], min_insync_replicas="2")
        assert eventually(lambda: wire.produce(TOPIC, b"three copies") + 1, "a write") == 1
        cluster.kill(3)
        assert eventually(lambda: wire.produce(TOPIC, b"two copies") + 1, "a write") == 2
        cluster.kill(2)
        assert wire.produce(TOPIC, b"one copy", timeout_ms=500) == -1
    cluster.start(PATIENCE_S)
    cluster.wait_in_sync(PATIENCE_S)
    with Wire(cluster.layout.client_port(leader_of(cluster, TOPIC))) as wire:
        records = wire.fetch(TOPIC, 0)
        assert b"three copies" in records
        assert wire.produce(TOPIC, b"three copies again") >= 2
        assert b"two copies" in records + wire.fetch(TOPIC, 1)
    assert_replicas_equal(cluster, TOPIC)
