"""From a record to its answer, and to a consumer, at rates that leave time: ``acks=all``, three copies, librdkafka
without lingering."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.beside.batches import LARGE
from benchmarks.beside.generator import Load, writing
from benchmarks.beside.sides import PARTITIONS, Side
from benchmarks.beside.turns import Turn, both_sides, compare, in_new_topic, written
from benchmarks.report import Figure, Run, Target

SUMMARY = "latency at 20, 1,000 and 10,000 records a second and beside a bulk load, beside Apache Kafka"
SIZE: Final = 100
SECONDS: Final = 5
AT_ONCE: Final = {"acks": "all", "linger.ms": 0}
QUIET, USUAL, BUSY = 20, 1_000, 10_000
CORES: Final = 0.3
"""Of all nodes, at the usual rate."""
BULK: Final = Load(10_000_000, 10_240, rate=2_000, warm=100, properties=LARGE)
"""20 MB/s in batches of 1 MB."""


def run(run: Run) -> list[Figure]:
    """By turns."""
    figures: list[Figure] = []
    with both_sides(run) as sides:
        if not sides:
            return figures
        for rate in (USUAL, QUIET, BUSY):
            found = compare(run, f"{rate:,}/s", sides, in_new_topic(_load(rate)))
            limit = Target("<", 0.5) if rate == USUAL else None
            figures += [
                found.figure(f"from record to answer, {rate:,}/s, p50", "p50_ms", limit),
                found.figure("  p99", "p99_ms", limit),
                found.figure("  p99.9", "p999_ms"),
                found.figure("  CPU of all nodes for a record", "cpu_us"),
            ]
            if rate == USUAL:
                limit_us = Target("<", CORES / USUAL * 1e6)
                figures.append(found.figure("  our CPU for a record", "cpu_us", ours=limit_us))
        for name, take, limit in (
            (f"from record to consumer, {USUAL:,}/s", in_new_topic(_load(USUAL), through=True), None),
            (f"from record to answer, {USUAL:,}/s beside 20 MB/s", _beside_bulk, Target("<", 1.0)),
        ):
            found = compare(run, name, sides, take)
            figures += [found.figure(f"{name}, p50", "p50_ms"), found.figure("  p99", "p99_ms", limit)]
    return figures


def usual_load() -> Load:
    """A thousand records a second."""
    return _load(USUAL)


def _load(rate: int) -> Load:
    return Load(rate * SECONDS, SIZE, rate=rate, warm=rate, properties=AT_ONCE)


def _beside_bulk(side: Side) -> Turn:
    with _bulk(side), side.topic(3) as topic:
        return written(side, topic, _load(USUAL))


@contextmanager
def _bulk(side: Side) -> Iterator[None]:
    with side.topic(3) as topic, writing(side.connecting, topic, PARTITIONS, BULK):
        yield
