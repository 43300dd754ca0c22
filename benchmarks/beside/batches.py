"""Throughput in batches: ``acks=all``, three copies, librdkafka; and the same records read again."""

from __future__ import annotations

from typing import Final

from benchmarks.beside.generator import Load
from benchmarks.beside.turns import SHORT, both_sides, compare, written_and_read
from benchmarks.report import Compared, Figure, Run, Target

SUMMARY = "throughput in batches, written and read, beside Apache Kafka"
LARGE: Final = {
    "acks": "all",
    "linger.ms": 20,
    "batch.size": 1_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
}
AS_IT_IS: Final = {"acks": "all", "queue.buffering.max.messages": 1_000_000}
LOADS: Final = {
    "100 B": Load(500_000, 100, warm=10_000, properties=LARGE),
    "1 KiB": Load(100_000, 1024, warm=5_000, properties=LARGE),
    "10 KiB": Load(10_000, 10_240, warm=500, properties=LARGE),
    "1 KiB, lz4": Load(100_000, 1024, warm=5_000, properties={**LARGE, "compression.type": "lz4"}),
    "1 KiB, zstd": Load(100_000, 1024, warm=5_000, properties={**LARGE, "compression.type": "zstd"}),
    "1 KiB, default batching": Load(100_000, 1024, warm=5_000, properties=AS_IT_IS),
}
UNBOUND: Final = frozenset({"10 KiB", "1 KiB, zstd"})
"""Without a target: what limits them is the disk, and the producer's own compression."""


def run(run: Run) -> list[Figure]:
    """By turns."""
    figures: list[Figure] = []
    with both_sides(run) as sides:
        for name, load in LOADS.items() if sides else ():
            found = compare(run, name, sides, written_and_read(load), SHORT)
            is_bound = name not in UNBOUND
            figures += [
                found.figure(f"written, {name}", "per_s", Target(">=", 1.5) if is_bound else None),
                found.figure("  CPU of all nodes for a record", "cpu_us", Target("<", 0.6) if is_bound else None),
                found.figure(f"read, {name}", "read_per_s", Target(">=", 1.2) if is_bound else None),
                found.figure("  CPU of all nodes for a record", "read_cpu_us"),
            ]
        if sides:
            theirs, ours = (side.rss_mb() for side in sides)
            what, limit = "memory (RSS) of all nodes after that", Target("<", 1 / 15)
            note = f"{ours:.0f} MB against {theirs:,.0f}"
            figures.append(Figure(what, ours / theirs, "", limit, note, Compared(ours, theirs, "MB")))
    return figures
