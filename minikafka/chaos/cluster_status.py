"""Status of a local cluster: every node's process and its state in the cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minikafka.chaos.last_words import last_words
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.probe import ClusterView, QuorumView
from minikafka.chaos.processes import RunningProcess


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One node."""

    node_id: int
    state: Literal["up", "paused", "down"]
    pid: int | None
    controller: bool
    live: bool  # a member that is not fenced
    client_port: int
    replication_port: int
    controller_port: int
    rss_bytes: int
    leaders: int
    under_replicated: int  # of the partitions that it leads
    losses: int | None  # in its file of losses (broker/losses.py); None when it cannot be read
    last_words: str | None = None  # why its last run ended, unless in order


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Status of the cluster. Without a view no node answers."""

    nodes: tuple[NodeStatus, ...]
    view: ClusterView | None
    trouble: str | None = None  # why there is no controller

    @property
    def controller_id(self) -> int | None:
        """The active controller, or None. A node without a quorum may remember an earlier one, which does not count."""
        return next((node.node_id for node in self.nodes if node.controller), None)

    @property
    def healthy(self) -> bool:
        """True when every node is a live member, there is a controller and every partition has all its replicas."""
        return (
            self.view is not None
            and self.controller_id is not None
            and self.view.fully_replicated
            and all(node.state == "up" and node.live for node in self.nodes)
        )


def cluster_status(cluster: LocalCluster) -> ClusterStatus:
    """Inspect every node's process, and ask the controller for the rest."""
    view = cluster.view()
    quorum = QuorumView(None) if view is None else cluster.quorum()
    nodes = (
        _node_status(cluster, node_id, cluster.process(node_id), view, quorum.leader_id) for node_id in cluster.node_ids
    )
    return ClusterStatus(tuple(nodes), view, quorum.trouble)


def _node_status(
    cluster: LocalCluster,
    node_id: int,
    process: RunningProcess | None,
    view: ClusterView | None,
    controller_id: int | None,
) -> NodeStatus:
    partitions = view.partitions if view else ()
    leaders = Counter(partition.leader_id for partition in partitions)
    under_replicated = Counter(partition.leader_id for partition in partitions if partition.under_replicated)
    return NodeStatus(
        node_id,
        "down" if process is None else "paused" if process.paused else "up",
        process.pid if process else None,
        process is not None and node_id == controller_id,
        process is not None and view is not None and node_id in view.broker_ids,
        *cluster.layout.ports(node_id),
        process.rss_bytes if process else 0,
        leaders[node_id],
        under_replicated[node_id],
        _losses(cluster, node_id),
        last_words(cluster.layout, node_id) if process is None else None,
    )


def _losses(cluster: LocalCluster, node_id: int) -> int | None:
    try:
        return len(losses_file(cluster, node_id).read_bytes().splitlines())
    except FileNotFoundError:
        return 0
    except OSError:
        return None


def losses_file(cluster: LocalCluster, node_id: int) -> Path:
    """The file of a node about acknowledged records that may be gone."""
    return cluster.layout.data_directory(node_id) / "losses"
