"""What Prometheus costs a node: scraped each second or not, by turns, as what disturbs the one disturbs the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final
from urllib.request import urlopen

from benchmarks.clusters import BROKERS, broker_cpu, create_topic, leader_of, running_cluster, spent
from benchmarks.report import Figure, Run, Target
from benchmarks.small_requests import requests_cost_us
from minikafka.chaos.local_cluster import LocalCluster

SUMMARY = "what a scrape of the metrics each second costs a node"
PARTITIONS: Final = 100
TURNS: Final = 5
TURN_S: Final = 20.0
PERIOD_S: Final = 1.0


def run(run: Run) -> list[Figure]:
    """Medians of the turns; the busiest of three nodes."""
    with running_cluster(metrics=True) as cluster:
        create_topic(cluster, "idle", partitions=PARTITIONS, copies=BROKERS)
        create_topic(cluster, "busy", copies=1)
        return [*_idle(run, cluster), *_producing(run, cluster)]


def _idle(run: Run, cluster: LocalCluster) -> Iterator[Figure]:
    turn_s, costs, quiet = (TURN_S / 4 if run.quick else TURN_S), [], []
    with scraped(cluster):  # APIs that were asked for since the start are in each scrape
        time.sleep(2 * PERIOD_S)
    for turn in range(run.times(TURNS)):
        run.say(f"idle, turn {turn + 1}: {turn_s:g} s scraped, {turn_s:g} s not")
        without = _cpu_of(cluster, turn_s)
        with scraped(cluster):
            with_scrapes = _cpu_of(cluster, turn_s)
        quiet.append(max(without.values()))
        costs.append(max(with_scrapes[node_id] - without[node_id] for node_id in without))
    cost, note = median(costs), "turns: " + ", ".join(f"{each:.2f}" for each in costs)
    what = f"idle node with {PARTITIONS} partitions"
    yield Figure(f"CPU of an {what}, not scraped", median(quiet), "% of a core")
    yield Figure("CPU of a scrape each second, the same", cost, "% of a core", Target("<", 1.0), note)


def _cpu_of(cluster: LocalCluster, seconds: float) -> dict[int, float]:
    """What each node uses, in per cent of a core."""
    before, began = broker_cpu(cluster), time.monotonic()
    time.sleep(seconds)
    used = spent(before, broker_cpu(cluster))
    return {node_id: cpu_s / (time.monotonic() - began) * 100 for node_id, cpu_s in used.items()}


def _producing(run: Run, cluster: LocalCluster) -> Iterator[Figure]:
    leader = leader_of(cluster, "busy")
    without, with_scrapes = [], []
    for _ in range(run.times(TURNS)):
        without.append(requests_cost_us(cluster, "busy", 1)[0])
        with scraped(cluster):
            with_scrapes.append(requests_cost_us(cluster, "busy", 1)[0])
    for name, turns in (("not scraped", without), ("scraped each second", with_scrapes)):
        note = f"node {leader}, turns: " + ", ".join(f"{turn:.1f}" for turn in turns)
        yield Figure(f"CPU per request, RF 1, acks=1, {name}", min(turns), "us", note=note)


@contextmanager
def scraped(cluster: LocalCluster) -> Iterator[None]:
    """All nodes, each second."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(PERIOD_S):
            for url in cluster.layout.metrics_urls:
                with urlopen(url, timeout=10) as answer:
                    answer.read()

    scraper = threading.Thread(target=scrape, name="scraper")
    scraper.start()
    try:
        yield
    finally:
        ended.set()
        scraper.join()
