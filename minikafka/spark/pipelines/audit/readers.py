"""Consumers that read to the end, found on the driver: there are few such events.

A *reader* of ``ledger.checker`` is an interval here, of the places of one process in one partition. Each reader of a
partition has a bit: so one number has all readers that saw a record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession

from minikafka.ledger.events import Event
from minikafka.ledger.partition import Run, gather
from minikafka.spark.pipelines.audit.history import Kind
from minikafka.spark.pipelines.running import PipelineError

STORE_BIT: Final = 1 << 62
FOREVER: Final = (1 << 63) - 1
_READERS_MAX: Final = 62
_INTERVALS: Final = "partition STRING, process BIGINT, begin BIGINT, end BIGINT, bit BIGINT"
_BOUNDS: Final = (
    "partition STRING, log_start BIGINT, starts ARRAY<BIGINT>, "
    "readers ARRAY<STRUCT<name: STRING, bit: BIGINT, start: BIGINT, end: BIGINT, highest: BIGINT>>"
)


class Reader(NamedTuple):
    """A consumer that read a partition to the end, between two of its assignments."""

    name: str
    begin: int  # place of its assignment
    end: int  # place of its next assignment
    process: int
    start: int  # its first offset


def readers_of(marks: Sequence[Row]) -> tuple[dict[str, list[Reader]], dict[str, set[int]], dict[str, int]]:
    """By partition: its readers, by name; where consumers begin; and its log start. Raises PipelineError for more
    readers than bits."""
    processes = {mark["name"]: mark["process"] for mark in marks}
    histories = gather(map(_event, sorted(marks, key=lambda mark: mark["place"])))
    found = {}
    for partition, history in histories.items():
        readers = [
            Reader(name, run.number, following.number, processes[name], run.start or 0)
            for name, runs in history.runs.items()
            for run, following in pairwise([*runs, Run(number=FOREVER)])
            if run.is_drained
        ]
        if len(readers) > _READERS_MAX:
            raise PipelineError(
                f"{len(readers)} consumers read {partition} to the end; the audit judges at most {_READERS_MAX}: "
                "leave some `drained` events out of the history"
            )
        found[partition] = sorted(readers)
    starts = {
        partition: {run.start for _, run in history.all_runs() if run.start is not None}
        for partition, history in histories.items()
    }
    return found, starts, {partition: history.log_start for partition, history in histories.items()}


def _event(mark: Row) -> Event:
    """As the ledger takes it, with its place as its number."""
    function = {Kind.ASSIGNED: "assign", Kind.DRAINED: "drained", Kind.LOG_START: "log_start"}[mark["kind"]]
    item = [mark["partition"]] if mark["offset"] is None else [mark["partition"], mark["offset"]]
    return Event(mark["place"], 0, mark["name"], "ok", function, [item])


def intervals(spark: SparkSession, readers: Mapping[str, Sequence[Reader]]) -> DataFrame:
    """``(partition, process, begin, end, bit)``: a process's records from begin to before end."""
    rows = [
        (partition, reader.process, reader.begin, reader.end, 1 << index)
        for partition, of_partition in readers.items()
        for index, reader in enumerate(of_partition)
    ]
    return spark.createDataFrame(rows, _INTERVALS)


def bounds(
    spark: SparkSession,
    highest: Mapping[str, Mapping[int, int | None]],
    readers: Mapping[str, Sequence[Reader]],
    starts: Mapping[str, Set[int]],
    log_starts: Mapping[str, int],
    store: str | None,
    open_from: Mapping[str, int],
) -> DataFrame:
    """``(partition, log_start, starts, readers)``: for each partition the readers, by name, with the offsets from
    ``start`` to before ``end`` that they had to get; and ``starts``, where consumers begin, the log start among them.

    ``highest`` has the highest offset of each reader, by partition and bit. ``store`` is the name of the reader of the
    stored records, which gets none from ``open_from`` on.
    """
    rows = []
    for partition, seen in highest.items():
        log_start = log_starts.get(partition, 0)
        found = [(each.name, 1 << n, each.start, FOREVER) for n, each in enumerate(readers.get(partition, ()))]
        if store is not None:
            found.append((store, STORE_BIT, 0, open_from.get(partition, FOREVER)))
        told = []
        for name, bit, start, end in sorted(found, key=lambda reader: reader[0]):
            last = seen.get(bit)
            told.append((name, bit, max(start, log_start), end, -1 if last is None else last))
        begun = {max(start, log_start) for start in (0, *starts.get(partition, ()))}
        rows.append((partition, log_start, sorted(begun), told))
    return spark.createDataFrame(rows, _BOUNDS)
