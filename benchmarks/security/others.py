"""TLS against Apache Kafka with TLS on this machine: 1 KiB records, ``acks=all``, three copies, librdkafka.

Both clusters are up all the time and take turns; the ratio is the median of those of the pairs. Brokers speak TLS to
each other in both. Ours has certificates on both sides there, too, and its clients log in and are looked up among ACLs;
those of Apache Kafka do neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.apache_kafka import NotHereError, class_path, running_apache_kafka
from benchmarks.beside.sides import OURS, THEIRS, Side, of_apache_kafka, of_cluster
from benchmarks.clusters import running_cluster
from benchmarks.report import Figure, Run, Target
from benchmarks.security.turns import Turn, middle, ratios, turn

SUMMARY = "TLS against Apache Kafka with TLS: writing and reading"
RECORDS: Final = 50_000
COPIES: Final = 3
WARM: Final = 4
PAIRS: Final = 7


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
                    run.say(f"{side.name}: {turns[side.name][-1]}")
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
        yield of_cluster(ours), of_apache_kafka(theirs)


def _turn(side: Side) -> Turn:
    with side.topic(COPIES) as topic:
        return turn(side, topic, RECORDS)


def _figures(turns: dict[str, list[Turn]]) -> list[Figure]:
    pairs = list(zip(turns[THEIRS], turns[OURS], strict=True))
    found, note = ratios(pairs), f"median of {len(pairs)} pairs of turns"
    return [
        Figure("written over TLS, RF 3, to Apache Kafka", found.written_mb_per_s, "", Target(">=", 1.0), note),
        Figure("read over TLS, to Apache Kafka", found.read_mb_per_s, "", Target(">=", 1.0), note),
        Figure("CPU of all nodes, writing, to Apache Kafka", found.writing_cpu_s, "", None, note),
        Figure("CPU of all nodes, reading, to Apache Kafka", found.reading_cpu_s, "", None, note),
        *(Figure(f"  {name}", middle(of).written_mb_per_s, "MB/s", note=str(middle(of))) for name, of in turns.items()),
    ]
