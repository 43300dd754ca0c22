"""A run as JSON: what the page shows, and the samples behind it."""

from __future__ import annotations

from typing import Any

from minikafka.chaos.report.run import ChaosRun
from minikafka.chaos.report.unavailability import LEAST_MS, by_partition, windows


def as_dict(run: ChaosRun) -> dict[str, Any]:
    """The content of ``report.json``."""
    found = windows(run)
    return {
        "ok": run.ok,
        "sentence": run.sentence,
        "command": run.command,
        "seed": run.seed,
        "versions": dict(run.versions),
        "settings": dict(run.settings),
        "workload": run.workload,
        "client": run.client,
        "duration_ms": run.duration_ms,
        "load_ms": [run.load_begin_ms, run.load_end_ms],
        "operations": {"succeeded": run.succeeded, "needed": run.needed},
        "verdict": run.verdict.as_dict(),
        "findings": [finding._asdict() for finding in run.findings],
        "faults": [fault._asdict() for fault in run.faults],
        "unavailability": {
            "least_ms": LEAST_MS,
            "partitions": [each._asdict() for each in by_partition(run, found)],
            "windows": [
                {
                    "partition": window.partition,
                    "begin_ms": window.begin_ms,
                    "end_ms": window.end_ms,
                    "faults": [fault.sentence for fault in window.faults],
                }
                for window in found
            ],
        },
        "samples": [
            sample._asdict() | {"partitions": [state._asdict() for state in sample.partitions]}
            for sample in run.samples
        ],
    }
