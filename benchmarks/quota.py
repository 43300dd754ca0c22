"""A librdkafka producer that floods under a quota, and what another client notices of it."""

from __future__ import annotations

import asyncio
import time
from statistics import quantiles
from typing import Final

from confluent_kafka import Producer

from benchmarks.clusters import create_topic, running_cluster
from benchmarks.latencies import latencies_ms
from benchmarks.report import Figure, Run, Target
from minikafka.client import Admin
from minikafka.client.admin import QuotaEntity
from minikafka.metadata.client_quotas import PRODUCER_BYTE_RATE

SUMMARY = "a flood under a quota of 10 MB/s, and the latency of another client"
RATE: Final = 10_000_000
VALUE: Final = bytes(1000)
FLOOD_S: Final = 30.0


def run(run: Run) -> list[Figure]:
    """Quiet first, then with the flood."""
    seconds = FLOOD_S / 3 if run.quick else FLOOD_S
    with running_cluster() as cluster:
        servers = cluster.bootstrap_servers
        create_topic(cluster, "flooded", copies=1)
        create_topic(cluster, "other", copies=1)
        asyncio.run(_bound(servers))
        run.say(f"{seconds / 2:g} s quiet, {seconds:g} s of flood")
        with latencies_ms({"bootstrap.servers": servers}, "other") as quiet:
            time.sleep(seconds / 2)
        with latencies_ms({"bootstrap.servers": servers}, "other") as beside:
            rate = _flood(servers, seconds)
    before, during = (quantiles(each, n=100)[98] for each in (quiet, beside))
    return [
        Figure("acknowledged of a flood, at least", rate / 1e6, "MB/s", Target(">=", 9.5)),
        Figure("the same, at most", rate / 1e6, "MB/s", Target("<", 10.5)),
        Figure("p99 of another client's one-record writes, quiet", before, "ms"),
        Figure("the same beside the flood", during, "ms"),
    ]


async def _bound(servers: str) -> None:
    async with Admin(servers) as admin:
        await admin.alter_quotas(QuotaEntity(client_id="flood", has_client_id=True), {PRODUCER_BYTE_RATE: RATE})


def _flood(servers: str, seconds: float) -> float:
    """Bytes a second that were acknowledged to a client that sends as much as it can."""
    acknowledged = 0

    def on_delivery(error: object, _message: object) -> None:
        nonlocal acknowledged
        acknowledged += len(VALUE) if error is None else 0

    producer = Producer({"bootstrap.servers": servers, "client.id": "flood", "queue.buffering.max.kbytes": 32 << 10})
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds:
        try:
            producer.produce("flooded", VALUE, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(0.05)
    rate = acknowledged / passed
    producer.purge()
    producer.flush(10)
    return rate
