"""From a record to its answer, at rates that leave time: ``acks=all``, three copies, librdkafka without lingering."""

from __future__ import annotations

from typing import Final

from benchmarks.beside.generator import Load
from benchmarks.beside.turns import compare
from benchmarks.report import Figure, Run, Target

SUMMARY = "latency at 1,000 and 10,000 records a second, beside Apache Kafka"
SIZE: Final = 100
SECONDS: Final = 5
RATES: Final = (1_000, 10_000)
LIMITED: Final = "1,000/s"
AT_ONCE: Final = {"acks": "all", "linger.ms": 0}


def run(run: Run) -> list[Figure]:
    """By turns."""
    loads = {f"{rate:,}/s": Load(rate * SECONDS, SIZE, rate=rate, warm=rate, properties=AT_ONCE) for rate in RATES}
    figures = []
    for name, turns in compare(run, loads).items():
        limit = Target("<", 0.5) if name == LIMITED else None
        for quantile, target in (("p50", limit), ("p99", limit), ("p999", None)):
            note = turns.note(f"{quantile}_ms", "{:.2f} ms")
            figures.append(Figure(f"{quantile}, {name}", turns.ratio(f"{quantile}_ms"), "", target, note))
        cpu = turns.note("written_cpu_us")
        figures.append(Figure("  CPU of all brokers for each", turns.our("written_cpu_us"), "us", None, cpu))
    return figures
