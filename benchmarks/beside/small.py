"""Requests of one record, so many without an answer at a time: ``acks=all``, three copies, librdkafka."""

from __future__ import annotations

from typing import Final

from benchmarks.beside.generator import Load
from benchmarks.beside.turns import SHORT, both_sides, compare, in_new_topic
from benchmarks.report import Figure, Run, Target

SUMMARY = "requests of one record at depths of 1, 5 and 100, beside Apache Kafka"
SIZE: Final = 100
ONE_BY_ONE: Final = {"acks": "all", "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 100}
DEPTHS: Final = {1: (2_000, 300), 5: (4_000, 200), 100: (10_000, 100)}
"""Records, and how much CPU each may cost all brokers, in microseconds."""


def run(run: Run) -> list[Figure]:
    """By turns."""
    figures: list[Figure] = []
    with both_sides(run) as sides:
        for depth, (records, limit_us) in DEPTHS.items() if sides else ():
            load = Load(records, SIZE, depth=depth, warm=records // 10, properties=ONE_BY_ONE)
            found = compare(run, f"depth {depth}", sides, in_new_topic(load), SHORT)
            figures += [
                found.figure(f"requests a second, depth {depth}", "per_s", Target(">=", 1.5)),
                found.figure(f"  latency, p50, depth {depth}", "p50_ms"),
                found.figure(f"  CPU of all nodes for each, depth {depth}", "cpu_us"),
                found.figure(f"  our CPU for each, depth {depth}", "cpu_us", ours=Target("<", limit_us)),
            ]
    return figures
