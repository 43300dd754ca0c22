"""A topic is written and read once by librdkafka; of two clusters, by turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Final, NamedTuple

from benchmarks.beside.sides import PARTITIONS, Side
from benchmarks.replication import RECORD_SIZE, producer_with, send

TICK_S: Final = 0.01
"""CPU time is told in these: less counts as one."""
_READING: Final = {"queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000}
"""Else a consumer that has 100,000 records in its queue fetches nothing for a second."""


class Turn(NamedTuple):
    """Megabytes a second, and CPU seconds of all nodes."""

    written_mb_per_s: float
    writing_cpu_s: float
    read_mb_per_s: float
    reading_cpu_s: float

    def __str__(self) -> str:
        return (
            f"written {self.written_mb_per_s:.0f} MB/s (nodes {self.writing_cpu_s:.2f} CPU s), "
            f"read {self.read_mb_per_s:.0f} MB/s ({self.reading_cpu_s:.2f} CPU s)"
        )


def turn(side: Side, topic: str, records: int) -> Turn:
    """With a topic of PARTITIONS that is there and empty."""
    return Turn(*write(side, topic, records), *read(side, topic, records))


def write(side: Side, topic: str, records: int) -> tuple[float, float]:
    """Megabytes a second, and CPU seconds of all nodes."""
    producer = producer_with(side.connecting, topic, PARTITIONS)
    return _measured(side, records, lambda: send(producer, topic, PARTITIONS, records))


def read(side: Side, topic: str, records: int) -> tuple[float, float]:
    """The same, by a consumer that connects first."""
    return _measured(side, records, lambda: _read(side.connecting, topic, records))


def _measured(side: Side, records: int, work: Callable[[], None]) -> tuple[float, float]:
    cpu_s, began = side.cpu_seconds(), time.monotonic()
    work()
    taken_s = time.monotonic() - began
    return records * RECORD_SIZE / 1e6 / taken_s, max(TICK_S, side.cpu_seconds() - cpu_s)


def middle(turns: Sequence[Turn]) -> Turn:
    """The median of each number."""
    return Turn(*map(median, zip(*turns, strict=True)))


def ratios(pairs: Sequence[tuple[Turn, Turn]]) -> Turn:
    """The median of each number of the second, to that of the first."""
    return middle([Turn(*(two / one for one, two in zip(*pair, strict=True))) for pair in pairs])


def _read(connecting: Mapping[str, Any], topic: str, records: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    asked = {"group.id": "none", "fetch.message.max.bytes": 1 << 20, "log_level": 0}
    consumer = Consumer({**connecting, **asked, **_READING})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    left = records
    while left > 0:
        # It waits for as many as are asked for.
        left -= sum(message.error() is None for message in consumer.consume(min(left, 10_000), 1.0))
    consumer.close()
