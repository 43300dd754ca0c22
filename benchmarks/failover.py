"""From the SIGKILL of a partition's leader to the next acknowledged ``acks=all`` write, as the cluster can do it.

A bare client asks a node that lives for the partition's leader, alternating between the two every five milliseconds,
and sends a record as soon as there is a new one. Every second victim is also the active controller. So that there is a
choice, leadership goes back to the preferred leaders within a second before each kill (by default within five minutes).
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from benchmarks.bare import BareClient
from benchmarks.clusters import create_topic, partitions_of, running_cluster, settled_view
from benchmarks.report import Figure, Run, Target, percentile
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.probe import ClusterView
from minikafka.errors import ErrorCode

SUMMARY = "from a leader's SIGKILL to the next acknowledged write, as the cluster can do it"
TOPIC: Final = "failover"
PARTITIONS: Final = 6
KILLS: Final = 20
TARGET: Final = Target("<", 1.5)
SETTINGS: Final = {"leader.imbalance.check.interval.seconds": "1"}
_TICK_S: Final = 0.005


class Victim(NamedTuple):
    """A node that leads partitions of the topic."""

    node_id: int
    partitions: list[int]
    is_controller: bool

    def __str__(self) -> str:
        return f"node {self.node_id}{' (the controller)' if self.is_controller else ''}"


def choose_victim(cluster: LocalCluster, number: int) -> Victim:
    """Once the cluster has healed: the controller every second time, else another node."""
    cluster.wait_for(is_balanced, "every preferred leader to lead", 60.0)
    view = settled_view(cluster)
    others = [node_id for node_id in cluster.node_ids if node_id != view.controller_id]
    node_id = others[number // 2 % len(others)] if number % 2 else view.controller_id
    led = [partition.partition for partition in partitions_of(view, TOPIC) if partition.leader_id == node_id]
    return Victim(node_id, led, node_id == view.controller_id)


def is_balanced(view: ClusterView) -> bool:
    """Every partition is in sync, and led by its preferred leader."""
    return view.fully_replicated and all(partition.leader_id == partition.replicas[0] for partition in view.partitions)


def run(run: Run) -> list[Figure]:
    """Twenty kills, each of a cluster that has fully healed."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    with running_cluster(SETTINGS) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        for number in range(run.times(KILLS)):
            victim = choose_victim(cluster, number)
            time.sleep(0.3)
            seconds[victim.is_controller].append(_kill_and_write(cluster, victim))
            run.say(f"killed {victim}: written after {seconds[victim.is_controller][-1] * 1000:.0f} ms")
            cluster.start_node(victim.node_id)
    return figures("kill to acknowledged write", seconds)


def figures(what: str, seconds: dict[bool, list[float]]) -> list[Figure]:
    """Percentiles of kills by whether the victim was the controller."""
    every = seconds[True] + seconds[False]
    note = f"{len(every)} kills, {len(seconds[True])} of them of the controller"
    found = [
        Figure(f"{what}, p50", percentile(every, 0.5), "s"),
        Figure(f"{what}, p99", percentile(every, 0.99), "s", TARGET, note),
        Figure(f"{what}, max", max(every), "s"),
    ]
    names = {True: "the controller", False: "another leader"}
    return found + [Figure(f"  of {names[k]}, p50", percentile(v, 0.5), "s") for k, v in seconds.items() if v]


def _kill_and_write(cluster: LocalCluster, victim: Victim) -> float:
    survivors = {n: BareClient(cluster.layout.client_port(n)) for n in cluster.node_ids if n != victim.node_id}
    try:
        began = time.monotonic()
        cluster.kill(victim.node_id)
        _write_until_acknowledged(survivors, victim.partitions[0])
        return time.monotonic() - began
    finally:
        for client in survivors.values():
            client.socket.close()


def _write_until_acknowledged(survivors: dict[int, BareClient], partition: int) -> None:
    """Each attempt asks the survivor whose turn it is; a failed one is followed by the next tick's."""
    asked = list(survivors)
    while True:
        asked.append(asked.pop(0))
        leader = survivors.get(survivors[asked[0]].leader_of(TOPIC, partition))
        if leader is not None and leader.produce(TOPIC, partition) == ErrorCode.NONE:
            return
        time.sleep(_TICK_S)
