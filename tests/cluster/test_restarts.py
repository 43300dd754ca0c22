"""Orderly restarts: clients notice nothing, and nothing about a node changes."""

from __future__ import annotations

import pytest
from cluster_load import TOPIC, Load
from live_cluster import PATIENCE_S, assert_replicas_equal, eventually, leader_of
from live_wire import Wire

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.probe import ClusterView


def seen(cluster: LocalCluster) -> ClusterView:
    view = cluster.view()
    assert view is not None
    return view


@pytest.mark.spec("P1", "P3", "C3")
def test_a_rolling_restart_under_load_goes_unnoticed(cluster: LocalCluster, load: Load) -> None:
    for node_id in cluster.node_ids:
        cluster.restart(node_id, PATIENCE_S)
        cluster.wait_in_sync(PATIENCE_S)
        load.wait_for_more()
    verdict = load.finish()
    assert verdict.unknown == 0
    for node_id in cluster.node_ids:
        assert "stopping without the controller's permission" not in cluster.layout.log_file(node_id).read_text()


@pytest.mark.spec("C3")
def test_a_stopping_node_hands_its_leaderships_over_first(cluster: LocalCluster, load: Load) -> None:
    """It is gone only when others lead: in its log, that it leads no longer comes before that it stopped."""
    node_id = leader_of(cluster, TOPIC, 1)
    killed = cluster.stop_node(node_id)
    assert not killed
    view = seen(cluster)
    assert node_id not in {partition.leader_id for partition in view.partitions}
    assert all(partition.leader_id in view.broker_ids for partition in view.partitions)
    log = cluster.layout.log_file(node_id).read_text()
    assert log.rindex("lost leadership") < log.rindex("stopped")
    load.wait_for_more()
    cluster.start_node(node_id, PATIENCE_S)
    assert load.finish().unknown == 0


def test_ids_and_ports_stay_the_same(cluster: LocalCluster) -> None:
    before, ports = seen(cluster), {n: cluster.layout.ports(n) for n in cluster.node_ids}
    with Wire(ports[2][0]) as wire:
        wire.create_topic(TOPIC, [[2, 3, 1]])
        assert eventually(lambda: wire.produce(TOPIC, b"before") + 1, "a write") == 1
    first = cluster.process(2)
    cluster.restart(2, PATIENCE_S)
    second = cluster.process(2)
    assert first is not None
    assert second is not None
    assert first.pid != second.pid

    again = LocalCluster.open(cluster.layout.directory)
    assert {n: again.layout.ports(n) for n in again.node_ids} == ports
    assert again.view() is not None
    assert (seen(again).cluster_id, seen(again).broker_ids) == (before.cluster_id, before.broker_ids)
    assert again.probe(2) is not None
    cluster.wait_in_sync(PATIENCE_S)
    assert_replicas_equal(cluster, TOPIC)


def test_a_cluster_that_was_stopped_starts_with_everything(cluster: LocalCluster) -> None:
    with Wire(cluster.layout.client_port(1)) as wire:
        wire.create_topic(TOPIC, [[1, 2, 3]])
        for number in range(20):
            assert eventually(lambda n=number: wire.produce(TOPIC, b"%d" % n) + 1, "a write") == number + 1  # type: ignore[misc]
    for _ in range(2):
        assert cluster.stop() == []
        assert cluster.running() == {}
        assert sorted(cluster.start(PATIENCE_S)) == cluster.node_ids
    batches = assert_replicas_equal(cluster, TOPIC)
    assert [record.value for each in batches for record in each.records()] == [b"%d" % n for n in range(20)]
