"""From the restart of a node that was killed to the moment when it is in every ISR again.

Records flow the whole time, and the node misses five seconds of them; besides that it has a hundred idle partitions.
"""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from benchmarks.clusters import create_topic, running_cluster, settled_view
from benchmarks.report import Figure, Run, Target
from benchmarks.traffic import flowing, safety

SUMMARY = "from a node's restart to full in-sync replicas"
TOPIC: Final = "rejoin"
PARTITIONS: Final = 6
IDLE_PARTITIONS: Final = 100
RATE: Final = 5_000
_DOWN_S: Final = 5.0


def run(run: Run) -> list[Figure]:
    """Each node twice, in turn."""
    seconds: list[float] = []
    with running_cluster() as cluster:
        create_topic(cluster, "idle", partitions=IDLE_PARTITIONS)
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        with flowing(cluster, TOPIC, PARTITIONS, RATE) as traffic:
            for number in range(run.times(6)):
                settled_view(cluster)
                node_id = cluster.node_ids[number % len(cluster.node_ids)]
                cluster.kill(node_id)
                time.sleep(_DOWN_S)
                began = time.monotonic()
                cluster.start_node(node_id)
                cluster.wait_in_sync()
                seconds.append(time.monotonic() - began)
                run.say(f"node {node_id} back in every ISR after {seconds[-1]:.2f} s")
        verdict = traffic.verdict()
    note = f"{len(seconds)} restarts, {IDLE_PARTITIONS + PARTITIONS} partitions, {RATE:,} records/s meanwhile"
    return [
        Figure("restart to full ISR, median", median(seconds), "s"),
        Figure("restart to full ISR, slowest", max(seconds), "s", Target("<", 10.0), note),
        *safety(verdict),
    ]
