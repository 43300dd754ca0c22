"""Throughput in batches: ``acks=all``, three copies, librdkafka; and the same records read again."""

from __future__ import annotations

from typing import Final

from benchmarks.beside.generator import Load
from benchmarks.beside.turns import compare
from benchmarks.report import Figure, Run, Target

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
    "100 B": Load(1_000_000, 100, warm=10_000, properties=LARGE),
    "1 KiB": Load(150_000, 1024, warm=5_000, properties=LARGE),
    "1 KiB, lz4": Load(150_000, 1024, warm=5_000, properties={**LARGE, "compression.type": "lz4"}),
    "1 KiB, librdkafka's own settings": Load(150_000, 1024, warm=5_000, properties=AS_IT_IS),
}


def run(run: Run) -> list[Figure]:
    """By turns."""
    figures = []
    for name, turns in compare(run, LOADS, reading=True).items():
        written, read = turns.note("written_per_s"), turns.note("read_per_s")
        cpu = turns.note("written_cpu_us", "{:.2f} us a record")
        figures += [
            Figure(f"written, {name}", turns.ratio("written_per_s"), "", Target(">=", 1.5), f"{written} records/s"),
            Figure("  CPU of all brokers", turns.ratio("written_cpu_us"), "", Target("<", 0.6), cpu),
            Figure("  read", turns.ratio("read_per_s"), "", Target(">=", 1.2), f"{read} records/s"),
        ]
    return figures
