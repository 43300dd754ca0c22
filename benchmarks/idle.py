"""Memory and CPU of a node that has nothing to do: after its start, and with a hundred partitions."""

from __future__ import annotations

import time
from typing import Final

from benchmarks.clusters import BROKERS, broker_cpu, create_topic, running_cluster, spent
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster

SUMMARY = "memory and CPU of a node that has nothing to do"
PARTITIONS: Final = 100
WAIT_S: Final = 30.0


def run(run: Run) -> list[Figure]:
    """The worst of three nodes, twice."""
    wait_s = WAIT_S / 5 if run.quick else WAIT_S
    with running_cluster() as cluster:
        figures = _measure(run, cluster, wait_s, "no topics")
        create_topic(cluster, "idle", partitions=PARTITIONS, copies=BROKERS)
        return figures + _measure(run, cluster, wait_s, f"{PARTITIONS} partitions, 3 copies of each")


def _measure(run: Run, cluster: LocalCluster, wait_s: float, what: str) -> list[Figure]:
    run.say(f"waiting {wait_s:g} s with {what}")
    time.sleep(1)  # what the last change brought about
    before, began = broker_cpu(cluster), time.monotonic()
    time.sleep(wait_s)
    cpu = spent(before, broker_cpu(cluster))
    seconds = time.monotonic() - began
    rss_mb = [process.rss_bytes / 1e6 for process in cluster.running().values()]
    return [
        Figure(f"RSS of the largest node, {what}", max(rss_mb), "MB", Target("<", 80), f"after {wait_s:g} s idle"),
        Figure(f"CPU of the busiest node, {what}", max(cpu.values()) / seconds * 100, "% of a core"),
    ]
