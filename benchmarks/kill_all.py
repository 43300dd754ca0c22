"""From the restart of all three nodes, killed at once under load, to acknowledged ``acks=all`` writes.

The clock starts when the first process is started. A bare client tries every partition until each took a write; a
librdkafka producer sends throughout, and everything it was promised is looked for afterwards.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from benchmarks.bare import BareClient
from benchmarks.clusters import create_topic, running_cluster, settled_view
from benchmarks.report import Figure, Run, Target
from benchmarks.traffic import Traffic, flowing, safety
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.errors import ErrorCode
from minikafka.wire.errors import WireError

SUMMARY = "from the restart of all nodes, killed at once, to the next acknowledged write"
TOPIC: Final = "kill-all"
PROBED: Final = "kill-all-probed"  # what the bare client writes is not in the producer's history
PARTITIONS: Final = 6
RATE: Final = 2_000
_UNDISTURBED_S: Final = 2.0
_TICK_S: Final = 0.01


def run(run: Run) -> list[Figure]:
    """Five times on one cluster."""
    to_first, to_all, restarted_ms = [], [], []
    with running_cluster() as cluster:
        for topic in (TOPIC, PROBED):
            create_topic(cluster, topic, partitions=PARTITIONS)
        with flowing(cluster, TOPIC, PARTITIONS, RATE) as traffic:
            for _ in range(run.times(5)):
                settled_view(cluster)
                time.sleep(_UNDISTURBED_S)
                cluster.kill_all()
                first, last, at_ms = _restart_and_write(cluster, traffic)
                run.say(f"first write after {first:.2f} s, every partition written after {last:.2f} s")
                to_first.append(first)
                to_all.append(last)
                restarted_ms.append(at_ms)
            settled_view(cluster)
            time.sleep(_UNDISTURBED_S)
        verdict = traffic.verdict()
    by_producer = [(max(traffic.first_write_ms(at_ms).values()) - at_ms) / 1000 for at_ms in restarted_ms]
    return [
        Figure("restart to the first write, slowest", max(to_first), "s", note=f"{len(to_first)} times"),
        Figure("restart to a write to every partition, slowest", max(to_all), "s", Target("<", 5.0)),
        Figure("  by librdkafka's producer, slowest", max(by_producer), "s", note="its back-off included"),
        *safety(verdict),
    ]


def _restart_and_write(cluster: LocalCluster, traffic: Traffic) -> tuple[float, float, int]:
    """Seconds to the first write, seconds until every partition took one, and when the restart began."""
    at_ms = traffic.mark("restart all")
    began = time.monotonic()
    with ThreadPoolExecutor(1) as other_thread:
        starting = other_thread.submit(cluster.start)
        seconds = []
        for partition in range(PARTITIONS):
            while not _try_to_write(cluster, partition):
                time.sleep(_TICK_S)
            seconds.append(time.monotonic() - began)
        starting.result()
    return seconds[0], seconds[-1], at_ms


def _try_to_write(cluster: LocalCluster, partition: int) -> bool:
    for node_id in cluster.node_ids:
        try:
            with BareClient(cluster.layout.client_port(node_id)) as client:
                if client.leader_of(PROBED, partition) == node_id:
                    return client.produce(PROBED, partition) == ErrorCode.NONE
        except (OSError, EOFError, WireError):
            continue
    return False
