"""One copy against librdkafka's mock cluster, which is C and has no disk: what Python and a disk cost."""

from __future__ import annotations

from benchmarks.beside.batches import LOADS
from benchmarks.beside.turns import SHORT, both_sides, compare, in_new_topic
from benchmarks.report import Figure, Run, Target

SUMMARY = "throughput in batches with one copy, beside librdkafka's mock cluster"


def run(run: Run) -> list[Figure]:
    """By turns."""
    with both_sides(run, mock=True) as sides:
        return [
            compare(run, name, sides, in_new_topic(LOADS[name], copies=1), SHORT).figure(
                f"written, {name}, one copy, to the mock", "per_s", Target(">=", 0.7)
            )
            for name in (("100 B", "1 KiB") if sides else ())
        ]
