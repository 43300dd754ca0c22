"""What TLS costs: records written and read, and three nodes made ready, encrypted everywhere against not at all.

Two clusters are up at once, of three nodes each, and take turns; everything runs on this one machine. With one copy TLS
is between clients and brokers only, with three copies between brokers, too. With TLS, clients log in, and each
request is looked up in ACLs. 1 KiB records, ``acks=all``, three partitions, librdkafka.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from statistics import median
from typing import Final

from benchmarks.beside.sides import PARTITIONS, of_cluster
from benchmarks.clusters import create_topic, delete_topic, running_cluster
from benchmarks.report import Figure, Run
from benchmarks.security.turns import Turn, middle, ratios, turn
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.testing import MiniKafka

SUMMARY = "TLS everywhere against none: writing, reading, starting"
RECORDS: Final = 50_000
ROUNDS: Final = 5
STARTS: Final = 5


def run(run: Run) -> list[Figure]:
    """In turns, with one copy and with three; then clusters that are made and started."""
    samples: dict[tuple[bool, int], list[Turn]] = {}
    with ExitStack() as stack:
        clusters = {secure: stack.enter_context(running_cluster(secure=secure)) for secure in (False, True)}
        for cluster in clusters.values():
            _measure(cluster, copies=3, records=RECORDS // 10)  # warms everything up
        for number in range(run.times(ROUNDS)):
            for copies in (1, 3):
                for secure in (False, True) if number % 2 else (True, False):
                    sample = _measure(clusters[secure], copies=copies, records=RECORDS)
                    samples.setdefault((secure, copies), []).append(sample)
                    run.say(f"{'TLS' if secure else 'plain'}, RF {copies}: {sample}")
    ready: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(run.times(STARTS)):
        for secure, seconds in ready.items():
            seconds.append(_ready_s(secure=secure))
    return [
        *(figure for copies in (1, 3) for figure in _figures(samples, copies)),
        *(
            Figure(f"MiniKafka(secure={secure}) ready, median", median(seconds), "s")
            for secure, seconds in ready.items()
        ),
    ]


def _measure(cluster: LocalCluster, *, copies: int, records: int) -> Turn:
    topic = f"rf{copies}"
    create_topic(cluster, topic, partitions=PARTITIONS, copies=copies)
    measured = turn(of_cluster(cluster, topic), topic, records)
    delete_topic(cluster, topic)
    time.sleep(0.5)
    return measured


def _ready_s(*, secure: bool) -> float:
    kafka = MiniKafka(secure=secure)
    began = time.monotonic()
    kafka.start()
    seconds = time.monotonic() - began
    kafka.close()
    return seconds


def _figures(samples: dict[tuple[bool, int], list[Turn]], copies: int) -> list[Figure]:
    plain, secured = samples[False, copies], samples[True, copies]
    found, note = ratios(list(zip(plain, secured, strict=True))), f"median of {len(plain)} pairs of turns"
    return [
        Figure(f"written with TLS to without, RF {copies}", found.written_mb_per_s, "", note=note),
        Figure(f"read with TLS to without, RF {copies}", found.read_mb_per_s, "", note=note),
        *(
            Figure(f"  RF {copies}, {how}", middle(of).written_mb_per_s, "MB/s", note=str(middle(of)))
            for how, of in (("plain", plain), ("TLS", secured))
        ),
    ]
