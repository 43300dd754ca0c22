"""Throughput with three copies against one, on the same cluster, in turns: 1 KiB records, ``acks=all``, librdkafka.

Everything runs on this one machine: three copies cost it three appends, two fetches and two more checksums, so on two
cores the ratio is a ratio of CPU work. ``batch.size`` is 1 MiB, of which librdkafka fills 1,000,000 bytes
(its ``message.max.bytes``). With three partitions every broker leads one. Topics of former turns leave the disk at
once: after some gigabytes a virtual machine's memory is new to it, and writing to it takes five times the CPU.
"""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.clusters import broker_cpu, create_topic, delete_topic, leader_of, of_librdkafka, running_cluster, spent
from benchmarks.machine import own_cpu_seconds
from benchmarks.report import Figure, Run, Target
from minikafka.chaos.local_cluster import LocalCluster

SUMMARY = "throughput with three copies against one"
RECORD_SIZE: Final = 1024
RECORDS: Final = 100_000
ROUNDS: Final = 9
PRODUCER_SETTINGS: Final[dict[str, Any]] = {
    "acks": "all",
    "batch.size": 1 << 20,
    "linger.ms": 20,
    "queue.buffering.max.messages": 200_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "log_level": 0,
}


class Sample(NamedTuple):
    """One turn: megabytes a second, and the CPU seconds that it took the brokers and the producer."""

    mb_per_s: float
    leader_cpu_s: float
    brokers_cpu_s: float
    producer_cpu_s: float


def run(run: Run) -> list[Figure]:
    """In turns, with one partition and with three."""
    found: list[Figure] = []
    with running_cluster({"log.segment.delete.delay.ms": "0"}) as cluster:
        _measure(cluster, copies=3, partitions=1, records=RECORDS // 10)  # warms everything up
        for partitions in (3, 1):
            samples: dict[int, list[Sample]] = {1: [], 3: []}
            for number in range(run.times(ROUNDS)):
                for copies in (1, 3) if number % 2 else (3, 1):
                    sample = _measure(cluster, copies=copies, partitions=partitions, records=RECORDS)
                    samples[copies].append(sample)
                    run.say(f"{partitions} partitions, RF {copies}: {_line(sample)}")
            found += _figures(samples, partitions)
    return found


def _measure(cluster: LocalCluster, *, copies: int, partitions: int, records: int) -> Sample:
    topic = f"rf{copies}"
    create_topic(cluster, topic, partitions=partitions, copies=copies)
    leader = leader_of(cluster, topic)
    producer = connected_producer(cluster, topic, partitions)
    brokers, own, began = broker_cpu(cluster), own_cpu_seconds(), time.monotonic()
    send(producer, topic, partitions, records)
    seconds = time.monotonic() - began
    by_node = spent(brokers, broker_cpu(cluster))
    producer_cpu_s = own_cpu_seconds() - own
    delete_topic(cluster, topic)
    time.sleep(0.5)
    return Sample(records * RECORD_SIZE / seconds / 1e6, by_node[leader], sum(by_node.values()), producer_cpu_s)


def connected_producer(cluster: LocalCluster, topic: str, partitions: int) -> Any:
    """A producer that is connected to all it will need."""
    return producer_with(of_librdkafka(cluster), topic, partitions)


def producer_with(connecting: dict[str, Any], topic: str, partitions: int) -> Any:
    """The same, of who connects so."""
    from confluent_kafka import Producer

    producer = Producer(PRODUCER_SETTINGS | connecting)
    for partition in range(partitions):
        producer.produce(topic, b"warm", partition=partition)
    assert producer.flush(30) == 0
    return producer


def send(producer: Any, topic: str, partitions: int, records: int) -> None:
    """Send that many records round robin; returns when all are acknowledged."""
    failed: list[Any] = []
    value = os.urandom(RECORD_SIZE)

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0, "records left after a minute"
    assert not failed, failed[0]


def _line(sample: Sample) -> str:
    return (
        f"{sample.mb_per_s:.0f} MB/s; CPU s: first partition's leader {sample.leader_cpu_s:.2f}, "
        f"all brokers {sample.brokers_cpu_s:.2f}, producer {sample.producer_cpu_s:.2f}"
    )


def _figures(samples: dict[int, list[Sample]], partitions: int) -> list[Figure]:
    middle = {copies: Sample(*map(median, zip(*of, strict=True))) for copies, of in samples.items()}
    ratio = median(three.mb_per_s / one.mb_per_s for one, three in zip(samples[1], samples[3], strict=True))
    where = f"{partitions} partition{'s' if partitions > 1 else ''}"
    note = f"median of {len(samples[1])} pairs of turns"
    target = Target(">=", 0.5) if partitions > 1 else None
    return [
        Figure(f"RF 3 against RF 1, {where}", ratio, "", target, note),
        *(Figure(f"  RF {copies}", of.mb_per_s, "MB/s", note=_line(of)) for copies, of in middle.items()),
    ]
