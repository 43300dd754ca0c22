"""What TLS costs: records written and read, and three nodes made ready, encrypted everywhere against not at all.

Two clusters are up at once, of three nodes each, and take turns; everything runs on this one machine. With one copy TLS
is between clients and brokers only, with three copies between brokers, too. With TLS, clients log in, and each
request is looked up in ACLs. 1 KiB records, ``acks=all``, three partitions, librdkafka.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from statistics import median
from typing import Final, NamedTuple

from benchmarks.clusters import broker_cpu, create_topic, delete_topic, running_cluster, spent
from benchmarks.replication import RECORD_SIZE, connected_producer, send
from benchmarks.report import Figure, Run
from benchmarks.security.reading import read
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.testing import MiniKafka

SUMMARY = "TLS everywhere against none: writing, reading, starting"
RECORDS: Final = 50_000
PARTITIONS: Final = 3
ROUNDS: Final = 5
STARTS: Final = 5


class Sample(NamedTuple):
    """One turn: megabytes a second, and CPU seconds of all brokers."""

    written_mb_per_s: float
    writing_cpu_s: float
    read_mb_per_s: float
    reading_cpu_s: float


def run(run: Run) -> list[Figure]:
    """In turns, with one copy and with three; then clusters that are made and started."""
    samples: dict[tuple[bool, int], list[Sample]] = {}
    with ExitStack() as stack:
        clusters = {secure: stack.enter_context(running_cluster(secure=secure)) for secure in (False, True)}
        for cluster in clusters.values():
            _measure(cluster, copies=3, records=RECORDS // 10)  # warms everything up
        for number in range(run.times(ROUNDS)):
            for copies in (1, 3):
                for secure in (False, True) if number % 2 else (True, False):
                    sample = _measure(clusters[secure], copies=copies, records=RECORDS)
                    samples.setdefault((secure, copies), []).append(sample)
                    run.say(f"{'TLS' if secure else 'plain'}, RF {copies}: {_line(sample)}")
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


def _measure(cluster: LocalCluster, *, copies: int, records: int) -> Sample:
    topic = f"rf{copies}"
    create_topic(cluster, topic, partitions=PARTITIONS, copies=copies)
    producer = connected_producer(cluster, topic, PARTITIONS)
    brokers, began = broker_cpu(cluster), time.monotonic()
    send(producer, topic, PARTITIONS, records)
    writing_s, writing_cpu_s = time.monotonic() - began, sum(spent(brokers, broker_cpu(cluster)).values())
    brokers, began = broker_cpu(cluster), time.monotonic()
    read(cluster, topic, PARTITIONS, records)
    reading_s, reading_cpu_s = time.monotonic() - began, sum(spent(brokers, broker_cpu(cluster)).values())
    delete_topic(cluster, topic)
    time.sleep(0.5)
    megabytes = records * RECORD_SIZE / 1e6
    return Sample(megabytes / writing_s, writing_cpu_s, megabytes / reading_s, reading_cpu_s)


def _ready_s(*, secure: bool) -> float:
    kafka = MiniKafka(secure=secure)
    began = time.monotonic()
    kafka.start()
    seconds = time.monotonic() - began
    kafka.close()
    return seconds


def _line(sample: Sample) -> str:
    return (
        f"written {sample.written_mb_per_s:.0f} MB/s (brokers {sample.writing_cpu_s:.2f} CPU s), "
        f"read {sample.read_mb_per_s:.0f} MB/s ({sample.reading_cpu_s:.2f} CPU s)"
    )


def _figures(samples: dict[tuple[bool, int], list[Sample]], copies: int) -> list[Figure]:
    plain, secured = samples[False, copies], samples[True, copies]
    pairs = list(zip(plain, secured, strict=True))
    middle = [Sample(*map(median, zip(*of, strict=True))) for of in (plain, secured)]
    note = f"median of {len(pairs)} pairs of turns"
    written = median(two.written_mb_per_s / one.written_mb_per_s for one, two in pairs)
    read = median(two.read_mb_per_s / one.read_mb_per_s for one, two in pairs)
    return [
        Figure(f"written with TLS to without, RF {copies}", written, "", note=note),
        Figure(f"read with TLS to without, RF {copies}", read, "", note=note),
        *(
            Figure(f"  RF {copies}, {how}", of.written_mb_per_s, "MB/s", note=_line(of))
            for how, of in zip(("plain", "TLS"), middle, strict=True)
        ),
    ]
