"""One copy against librdkafka's mock cluster, which is C and has no disk: what Python and a disk cost."""

from __future__ import annotations

from benchmarks.beside.batches import LOADS
from benchmarks.beside.turns import compare
from benchmarks.report import Figure, Run, Target

SUMMARY = "throughput in batches with one copy, beside librdkafka's mock cluster"


def run(run: Run) -> list[Figure]:
    """By turns."""
    loads = {name: LOADS[name] for name in ("100 B", "1 KiB")}
    return [
        Figure(
            f"written, {name}, RF 1, to the mock",
            turns.ratio("written_per_s"),
            "",
            Target(">=", 0.7),
            f"{turns.note('written_per_s')} records/s",
        )
        for name, turns in compare(run, loads, copies=1, mock=True).items()
    ]
