"""Three nodes with 1,000 and with 5,000 partitions of three copies each: their start, their memory, their idle CPU.

The start is one after a clean stop, until every partition has a leader and all its copies are in sync.
"""

from __future__ import annotations

import time
from typing import Final, NamedTuple

from benchmarks.clusters import BROKERS, broker_cpu, create_topic, running_cluster, spent
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster

SUMMARY = "start, memory and idle CPU of three nodes with 1,000 and 5,000 partitions"
PARTITIONS_OF_A_TOPIC: Final = 500
IDLE_S: Final = 30.0
_PATIENCE_S: Final = 300.0


class Limits(NamedTuple):
    """For a number of partitions: seconds to ready, MB and per cent of a core of a node."""

    partitions: int
    ready_s: float
    rss_mb: float
    idle_cpu: float


LIMITS: Final = (Limits(1_000, 5.0, 120.0, 5.0), Limits(5_000, 20.0, 350.0, 20.0))


def run(run: Run) -> list[Figure]:
    """A cluster for each."""
    return [figure for limits in LIMITS[: 1 if run.quick else None] for figure in _measure(run, limits)]


def _measure(run: Run, limits: Limits) -> list[Figure]:
    idle_s = IDLE_S / 5 if run.quick else IDLE_S
    with running_cluster() as cluster:
        for number in range(limits.partitions // PARTITIONS_OF_A_TOPIC):
            create_topic(cluster, f"idle-{number}", partitions=PARTITIONS_OF_A_TOPIC, copies=BROKERS)
        run.say(f"{limits.partitions:,} partitions are there; stopping and starting the nodes")
        cluster.stop(_PATIENCE_S)
        ready_s, start_cpu_s = _start(cluster)
        run.say(f"ready after {ready_s:.1f} s; waiting {idle_s:g} s")
        time.sleep(2.0)  # what the start brought about
        before, began = broker_cpu(cluster), time.monotonic()
        time.sleep(idle_s)
        used = max(spent(before, broker_cpu(cluster)).values()) / (time.monotonic() - began) * 100
        rss_mb = max(process.rss_bytes for process in cluster.running().values()) / 1e6
    what = f"{limits.partitions:,} partitions, RF {BROKERS}"
    note = f"CPU of the nodes {start_cpu_s:.1f} s"
    return [
        Figure(f"{what}: start to all in sync", ready_s, "s", Target("<", limits.ready_s), note),
        Figure(
            f"{what}: RSS of the largest node", rss_mb, "MB", Target("<", limits.rss_mb), f"after {idle_s:g} s idle"
        ),
        Figure(f"{what}: idle CPU of the busiest node", used, "% of a core", Target("<", limits.idle_cpu)),
    ]


def _start(cluster: LocalCluster) -> tuple[float, float]:
    """Seconds until every partition is led and in sync, and what CPU time all nodes took for it."""
    began = time.monotonic()
    cluster.start(_PATIENCE_S)
    cluster.wait_in_sync(_PATIENCE_S)
    ready_s = time.monotonic() - began
    return ready_s, sum(broker_cpu(cluster).values())
