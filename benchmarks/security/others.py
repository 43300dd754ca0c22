"""TLS against Apache Kafka with TLS on this machine: 1 KiB records, ``acks=all``, three copies, librdkafka.

Both clusters are up all the time and take turns; the ratio is the median of those of the pairs. Brokers speak TLS to
each other in both. Ours has certificates on both sides there, too, and its clients log in and are looked up among ACLs;
those of Apache Kafka do neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any, Final, NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from benchmarks.apache_kafka import NotHereError, class_path, running_apache_kafka
from benchmarks.clusters import broker_cpu, of_librdkafka, running_cluster
from benchmarks.replication import RECORD_SIZE, producer_with, send
from benchmarks.report import Figure, Run, Target
from benchmarks.security.reading import read_with

SUMMARY = "TLS against Apache Kafka with TLS: writing and reading"
RECORDS: Final = 50_000
PARTITIONS: Final = 3
COPIES: Final = 3
WARM: Final = 4
PAIRS: Final = 7
OURS: Final = "minikafka"
THEIRS: Final = "Apache Kafka"


class Side(NamedTuple):
    """A cluster: its name, how to connect, and the CPU seconds that its nodes have used."""

    name: str
    connecting: dict[str, Any]
    cpu_seconds: Callable[[], float]


class Turn(NamedTuple):
    """Megabytes a second, and CPU seconds of all nodes."""

    written_mb_per_s: float
    writing_cpu_s: float
    read_mb_per_s: float
    reading_cpu_s: float


def run(run: Run) -> list[Figure]:
    """By turns. Without Java or Kafka's jars there is nothing to compare with."""
    try:
        with _sides() as sides:
            for side in sides:
                for _ in range(run.times(WARM)):  # until the JVMs have compiled what they need
                    _turn(side)
            turns: dict[str, list[Turn]] = {side.name: [] for side in sides}
            for number in range(run.times(PAIRS)):
                for side in sides if number % 2 else reversed(sides):
                    turns[side.name].append(_turn(side))
                    run.say(f"{side.name}: {_line(turns[side.name][-1])}")
    except NotHereError as error:
        run.say(f"not compared: {error}")
        return []
    return _figures(turns)


@contextmanager
def _sides() -> Iterator[tuple[Side, Side]]:
    jars = class_path()
    with ExitStack() as stack:
        theirs = stack.enter_context(running_apache_kafka(jars, {}, tls=True))
        ours = stack.enter_context(running_cluster(secure=True))
        yield (
            Side(OURS, of_librdkafka(ours), lambda: sum(broker_cpu(ours).values())),
            Side(THEIRS, theirs.connecting, theirs.cpu_seconds),
        )


def _turn(side: Side) -> Turn:
    admin = AdminClient(side.connecting | {"log_level": 0})
    topic = f"t{time.time_ns()}"  # deleting takes its time
    settings = {"min.insync.replicas": "2"}
    admin.create_topics([NewTopic(topic, PARTITIONS, COPIES, config=settings)])[topic].result(timeout=60)
    producer = producer_with(side.connecting, topic, PARTITIONS)
    cpu_s, began = side.cpu_seconds(), time.monotonic()
    send(producer, topic, PARTITIONS, RECORDS)
    writing_s, writing_cpu_s = time.monotonic() - began, side.cpu_seconds() - cpu_s
    cpu_s, began = side.cpu_seconds(), time.monotonic()
    read_with(side.connecting, topic, PARTITIONS, RECORDS)
    reading_s, reading_cpu_s = time.monotonic() - began, side.cpu_seconds() - cpu_s
    admin.delete_topics([topic])[topic].result(timeout=60)
    time.sleep(1)
    megabytes = RECORDS * RECORD_SIZE / 1e6
    return Turn(megabytes / writing_s, writing_cpu_s, megabytes / reading_s, reading_cpu_s)


def _line(turn: Turn) -> str:
    return (
        f"written {turn.written_mb_per_s:.0f} MB/s (nodes {turn.writing_cpu_s:.2f} CPU s), "
        f"read {turn.read_mb_per_s:.0f} MB/s ({turn.reading_cpu_s:.2f} CPU s)"
    )


def _figures(turns: dict[str, list[Turn]]) -> list[Figure]:
    pairs = list(zip(turns[OURS], turns[THEIRS], strict=True))
    note = f"median of {len(pairs)} pairs of turns"
    written, writing, read_back, reading = (
        median(ours[field] / theirs[field] for ours, theirs in pairs) for field in range(len(Turn._fields))
    )
    return [
        Figure("written over TLS, RF 3, to Apache Kafka", written, "", Target(">=", 1.0), note),
        Figure("read over TLS, to Apache Kafka", read_back, "", Target(">=", 1.0), note),
        Figure("CPU of all nodes, writing, to Apache Kafka", writing, "", None, note),
        Figure("CPU of all nodes, reading, to Apache Kafka", reading, "", None, note),
        *(
            Figure(f"  {name}", median(turn.written_mb_per_s for turn in of), "MB/s", note=_line(of[-1]))
            for name, of in turns.items()
        ),
    ]
