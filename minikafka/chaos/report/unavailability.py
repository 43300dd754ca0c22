"""Times without an acknowledged write while the load ran, by partition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from minikafka.chaos.report.run import ChaosRun, Fault

LEAST_MS: Final = 250
"""Shorter ones are the rhythm of the load."""


class Window(NamedTuple):
    """A partition without an acknowledged write."""

    partition: str
    begin_ms: int
    end_ms: int
    faults: tuple[Fault, ...]  # those in force

    @property
    def length_ms(self) -> int:
        """From its begin to its end."""
        return self.end_ms - self.begin_ms


class PartitionWindows(NamedTuple):
    """Those of a partition, and their lengths."""

    partition: str
    acknowledged: int  # times at which writes were acknowledged
    windows: int  # their number
    p50_ms: int
    p99_ms: int
    max_ms: int
    total_ms: int


def windows(run: ChaosRun) -> list[Window]:
    """The windows of all partitions, longest first."""
    found = []
    for partition, times in _times(run).items():
        for begin, end in pairwise([run.load_begin_ms, *times, run.load_end_ms]):
            if end - begin >= LEAST_MS:
                found.append(Window(partition, begin, end, tuple(run.faults_between(begin, end))))
    return sorted(found, key=lambda window: (-window.length_ms, window.begin_ms, window.partition))


def by_partition(run: ChaosRun, found: Sequence[Window]) -> list[PartitionWindows]:
    """Number and lengths of the windows of each partition, in its natural order."""
    figures = []
    for partition, times in sorted(_times(run).items(), key=lambda each: _natural(each[0])):
        lengths = sorted(window.length_ms for window in found if window.partition == partition)
        figures.append(
            PartitionWindows(
                partition,
                len(times),
                len(lengths),
                quantile(lengths, 0.5),
                quantile(lengths, 0.99),
                max(lengths, default=0),
                sum(lengths),
            )
        )
    return figures


def quantile(ascending: Sequence[int], share: float) -> int:
    """The smallest value that is not below so many of them; 0 of none."""
    return ascending[max(math.ceil(share * len(ascending)) - 1, 0)] if ascending else 0


def _times(run: ChaosRun) -> dict[str, list[int]]:
    """By partition: when writes were acknowledged, while the load ran. Metadata may have further partitions."""
    acknowledged = run.verdict.records.acknowledged_at_ms
    sampled = {state.partition for sample in run.samples for state in sample.partitions}
    return {
        partition: [t for t in acknowledged.get(partition, ()) if run.load_begin_ms <= t <= run.load_end_ms]
        for partition in sorted(sampled | acknowledged.keys())
    }


def _natural(partition: str) -> tuple[str, int, str]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number) if number.isdecimal() else -1, partition
