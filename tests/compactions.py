"""Passes of the log cleaner, as a node makes them, but at once."""

from __future__ import annotations

from minikafka.storage.compaction import CompactionJob
from minikafka.storage.log import Log


def compact(log: Log, high_watermark: int, wall_ms: int) -> bool:
    """A whole pass; False when none is due."""
    job = log.plan_compaction(high_watermark, wall_ms)
    if job is None:
        return False
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    assert complete_compaction(log, job)
    return True


def complete_compaction(log: Log, job: CompactionJob) -> bool:
    """All portions of the swap; False when it is no longer possible."""
    steps = log.completing_compaction(job)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return bool(end.value)
