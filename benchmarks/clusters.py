"""A cluster of real broker processes for one benchmark, and what is asked of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.machine import cpu_seconds
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.ports import free_base_port
from minikafka.chaos.probe import ClusterView, PartitionView
from minikafka.client.other_clients import client_config

BROKERS = 3
_PATIENCE_S = 120.0


@contextmanager
def running_cluster(
    settings: dict[str, str] | None = None, *, metrics: bool = False, secure: bool = False
) -> Iterator[LocalCluster]:
    """Three nodes as ``minikafka cluster start`` makes them, with `settings` besides; killed at the end."""
    with tempfile.TemporaryDirectory(prefix="minikafka-bench-") as directory:
        cluster = LocalCluster.create(
            Path(directory) / "cluster",
            brokers=BROKERS,
            base_port=free_base_port(BROKERS),
            settings=settings,
            detached=False,
            metrics=metrics,
            secure=secure,
        )
        try:
            cluster.start(_PATIENCE_S)
            yield cluster
        finally:
            cluster.kill_all()


def create_topic(cluster: LocalCluster, name: str, *, partitions: int = 1, copies: int = 3) -> None:
    """Create a topic, with ``min.insync.replicas`` 2 where there are enough copies; returns when it is in sync."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    settings = {"min.insync.replicas": str(min(2, copies))}
    topic = NewTopic(name, partitions, replication_factor=copies, config=settings)
    admin = _admin(cluster)  # must live until the result is there
    admin.create_topics([topic], request_timeout=_PATIENCE_S)[name].result(timeout=_PATIENCE_S)
    cluster.wait_for(lambda view: len(partitions_of(view, name)) == partitions, f"topic {name}", _PATIENCE_S)
    cluster.wait_in_sync(_PATIENCE_S)


def delete_topic(cluster: LocalCluster, name: str) -> None:
    """Delete a topic, so that its files do not fill the disk."""
    admin = _admin(cluster)
    admin.delete_topics([name])[name].result(timeout=30)


def _admin(cluster: LocalCluster) -> Any:
    from confluent_kafka.admin import AdminClient

    return AdminClient(of_librdkafka(cluster) | {"log_level": 0})


def of_librdkafka(cluster: LocalCluster) -> dict[str, Any]:
    """What its clients connect with."""
    return client_config("confluent", cluster.bootstrap_servers, cluster.layout.security)


def partitions_of(view: ClusterView, topic: str) -> list[PartitionView]:
    """The topic's partitions that a view knows."""
    return [partition for partition in view.partitions if partition.topic == topic]


def settled_view(cluster: LocalCluster) -> ClusterView:
    """The cluster's view once every node is a live member, there is a controller, and every replica is in sync."""
    cluster.wait_ready()
    cluster.wait_in_sync(60.0)
    cluster.wait_for(lambda view: view.has_controller, "a controller")
    view = cluster.view()
    assert view is not None
    return view


def leader_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    """Who leads the partition."""
    return next(p.leader_id for p in settled_view(cluster).partitions if (p.topic, p.partition) == (topic, partition))


def broker_cpu(cluster: LocalCluster) -> dict[int, float]:
    """CPU seconds that each node has used so far."""
    return {node_id: cpu_seconds(process.pid) for node_id, process in cluster.running().items()}


def spent(before: Mapping[int, float], after: Mapping[int, float]) -> dict[int, float]:
    """CPU seconds of each node between two looks."""
    return {node_id: after[node_id] - before[node_id] for node_id in before}
