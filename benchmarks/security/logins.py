"""A thousand clients connect to one node at once, with TLS and SCRAM-SHA-512, and what another client notices.

They are of a process of their own on this machine, so that half of the work is theirs. They are as patient as
librdkafka (``socket.connection.setup.timeout.ms``).
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import quantiles
from typing import Final

from benchmarks.clusters import broker_cpu, create_topic, leader_of, of_librdkafka, running_cluster, spent
from benchmarks.latencies import latencies_ms
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.layout import HOST
from minikafka.client import Security
from minikafka.client.broker_connection import BrokerConnection
from minikafka.model import Endpoint

SUMMARY = "1,000 clients that connect and log in at once over TLS, and the latency of another client"
CLIENTS: Final = 1000
STORMS: Final = 5
QUIET_S: Final = 10.0
CONNECT_S: Final = 30.0


def run(run: Run) -> list[Figure]:
    """Quiet first, then storms on the node that leads."""
    took_s: list[float] = []
    beside: list[float] = []
    spawning = multiprocessing.get_context("spawn")
    with running_cluster(secure=True) as cluster, ProcessPoolExecutor(1, mp_context=spawning) as others:
        create_topic(cluster, "honest", copies=1)
        leader = leader_of(cluster, "honest")
        asked = Endpoint(HOST, cluster.layout.client_port(leader)), cluster.layout.security
        others.submit(storm, *asked, 10).result()
        with latencies_ms(of_librdkafka(cluster), "honest") as quiet:
            time.sleep(QUIET_S)
        before = broker_cpu(cluster)
        for _ in range(run.times(STORMS)):
            with latencies_ms(of_librdkafka(cluster), "honest") as during:
                took_s.append(others.submit(storm, *asked, CLIENTS).result())
            beside += during
            run.say(f"{CLIENTS:,} clients are in after {took_s[-1]:.1f} s")
        cpu_ms = spent(before, broker_cpu(cluster))[leader] * 1000 / (len(took_s) * CLIENTS)
    before_ms, during_ms = (quantiles(each, n=100)[98] for each in (quiet, beside))
    return [
        Figure(f"{CLIENTS:,} clients at once: all are in, slowest of {len(took_s)}", max(took_s), "s", Target("<", 20)),
        Figure("CPU of the node for each", cpu_ms, "ms"),
        Figure("p99 of another client's one-record writes, quiet", before_ms, "ms"),
        Figure("the same beside them", during_ms, "ms"),
        Figure("beside to quiet", during_ms / before_ms, "", Target("<", 10)),
    ]


def storm(endpoint: Endpoint, security: Security, clients: int) -> float:
    """Seconds until all are in."""

    async def open_all() -> float:
        tls, sasl = security.context(), security.sasl()
        began = time.monotonic()
        opening = (BrokerConnection.open(endpoint, "storm", tls, sasl, CONNECT_S) for _ in range(clients))
        opened = await asyncio.gather(*opening)
        seconds = time.monotonic() - began
        for connection in opened:
            connection.close()
        return seconds

    return asyncio.run(open_all())
