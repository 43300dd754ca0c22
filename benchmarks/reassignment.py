"""A partition of 1 GiB moves from its leader's broker to a fourth one, while a librdkafka producer writes to it.

The fourth broker joins the running cluster, copies the partition from its leader as fast as it can (nothing is
throttled), and leads it in the end. Latencies are librdkafka's own, from ``produce()`` to the acknowledgement, for some
seconds before the move and for as long as it takes.

When the leadership moves, librdkafka is refused once and waits ``retry.backoff.ms`` before it asks the new leader,
though the refusal names it (KIP-951). By default that is 100 ms, whatever the cluster does; here it is 10 ms, so that
what is measured is the cluster.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from benchmarks.clusters import create_topic, leader_of, running_cluster, settled_view
from benchmarks.report import Figure, Run, Target, percentile
from benchmarks.traffic import flowing, safety
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin
from minikafka.client.reassigning.plan import Placement
from minikafka.client.reassigning.tool import Reassigner
from minikafka.model import TopicPartition

SUMMARY = "a 1 GiB partition moves to another broker under load"
TOPIC: Final = "moving"
WHERE: Final = TopicPartition(TOPIC, 0)
SIZE_BYTES: Final = 1 << 30
RECORD_BYTES: Final = 128 << 10
RATE: Final = 1_000
RETRY_BACKOFF_MS: Final = 10
BEFORE_S: Final = 15.0
WARM_UP_S: Final = 3.0


def run(run: Run) -> list[Figure]:
    """Fill it, measure, move it, measure."""
    size_bytes = SIZE_BYTES // 8 if run.quick else SIZE_BYTES
    with running_cluster() as cluster:
        create_topic(cluster, TOPIC)
        filled = fill(cluster, size_bytes)
        run.say(f"{size_bytes >> 20} MiB in {filled:,} records")
        newcomer = cluster.add_node()
        settled_view(cluster)
        latencies_s: list[float] = []
        with flowing(cluster, TOPIC, 1, RATE, retry_backoff_ms=RETRY_BACKOFF_MS) as traffic:
            traffic.producer.on_latency = latencies_s.append
            time.sleep(WARM_UP_S)
            latencies_s.clear()
            time.sleep(BEFORE_S)
            before = list(latencies_s)
            began, first = time.monotonic(), len(latencies_s)
            asyncio.run(move(cluster, newcomer, run))
            took_s = time.monotonic() - began
            during = latencies_s[first:]
        assert leader_of(cluster, TOPIC) == newcomer
        verdict = traffic.verdict(first_offset=filled)
    p99_before, p99_during = percentile(before, 0.99), percentile(during, 0.99)
    note = f"{len(before):,} and {len(during):,} records, {RATE:,}/s"
    return [
        Figure("moving the partition", took_s, "s", note=f"{size_bytes / took_s / 2**20:.0f} MiB/s"),
        Figure("producer p99 before", p99_before * 1000, "ms"),
        Figure("producer p99 during", p99_during * 1000, "ms"),
        Figure("producer max during", max(during) * 1000, "ms"),
        Figure("p99 during, times that before", p99_during / p99_before, "", Target("<", 3.0), note),
        *safety(verdict),
    ]


def fill(cluster: LocalCluster, size_bytes: int) -> int:
    """Write that much into the partition; answers how many records it took."""
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "acks": "all",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 64 << 10,
        }
    )
    count, value = size_bytes // RECORD_BYTES, bytes(range(256)) * (RECORD_BYTES // 256)
    for _ in range(count):
        while True:
            try:
                producer.produce(TOPIC, value, partition=0)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(120) == 0
    return count


async def move(cluster: LocalCluster, newcomer: int, run: Run) -> None:
    """The newcomer takes the leader's place."""
    async with Admin(cluster.bootstrap_servers) as admin:
        partition = (await admin.describe_cluster()).partition(WHERE)
        assert partition is not None
        others = [replica for replica in partition.replicas if replica != partition.leader]
        tool = Reassigner(admin)
        begun = await tool.execute({WHERE: Placement((newcomer, *others))})
        await tool.wait(begun.plan, begun.moves, lambda progress: None)
        run.say(f"moved from broker {partition.leader} to broker {newcomer}")
