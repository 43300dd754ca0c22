"""Requests of one record, so many without an answer at a time: ``acks=all``, three copies, librdkafka."""

from __future__ import annotations

from typing import Final

from benchmarks.beside.generator import Load
from benchmarks.beside.turns import compare
from benchmarks.report import Figure, Run, Target

SUMMARY = "requests of one record at depths of 1, 5 and 100, beside Apache Kafka"
SIZE: Final = 100
ONE_BY_ONE: Final = {"acks": "all", "linger.ms": 0, "batch.num.messages": 1, "max.in.flight": 100}
DEPTHS: Final = {1: (2_000, 300), 5: (5_000, 200), 100: (30_000, 100)}
"""Records, and how much CPU each may cost all brokers, in microseconds."""


def run(run: Run) -> list[Figure]:
    """By turns."""
    loads = {
        f"depth {depth}": Load(records, SIZE, depth=depth, warm=records // 10, properties=ONE_BY_ONE)
        for depth, (records, _) in DEPTHS.items()
    }
    found = compare(run, loads)
    figures = []
    for (name, turns), (_, limit_us) in zip(found.items(), DEPTHS.values(), strict=False):
        per_s, cpu = turns.note("written_per_s"), turns.note("written_cpu_us")
        figures += [
            Figure(f"requests a second, {name}", turns.ratio("written_per_s"), "", Target(">=", 1.5), per_s),
            Figure("  CPU of all brokers for each", turns.our("written_cpu_us"), "us", Target("<", limit_us), cpu),
        ]
    return figures
