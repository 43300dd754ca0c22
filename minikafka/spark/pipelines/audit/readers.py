"""Consumers that read to the end, found on the driver: there are few such events.

A *reader* of ``ledger.checker`` is an interval here, of the places of one process in one partition. Each reader of a
partition has a bit: so one number has all readers that saw a record.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from minikafka.spark.pipelines.audit.history import Kind
from minikafka.spark.pipelines.running import PipelineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

STORE_BIT: Final = 1 << 62
_READERS_MAX: Final = 62
_FOREVER: Final = (1 << 63) - 1
_INTERVALS: Final = "partition STRING, process BIGINT, begin BIGINT, end BIGINT, bit BIGINT"
_BOUNDS: Final = (
    "partition STRING, readers ARRAY<STRUCT<bit BIGINT, name STRING, start BIGINT, end BIGINT, highest BIGINT>>, "
    "all_bits BIGINT, least_start BIGINT, greatest_end BIGINT, log_start BIGINT, highest_stored BIGINT"
)


class Reader(NamedTuple):
    """A consumer that read a partition to the end, between two of its assignments."""

    name: str
    begin: int  # place of its assignment
    process: int
    start: int  # its first offset
    end: int  # place of its next assignment


def readers_of(marks: Iterable[Row]) -> dict[str, list[Reader]]:
    """By partition, in the order of their names. Raises PipelineError for more readers of a partition than bits."""
    by_consumer: dict[tuple[str, int, str], list[Row]] = defaultdict(list)
    for mark in marks:
        if mark["kind"] in (Kind.ASSIGNED, Kind.DRAINED):
            by_consumer[mark["partition"], mark["process"], mark["name"]].append(mark)
    found: dict[str, list[Reader]] = defaultdict(list)
    for (partition, process, name), of_consumer in by_consumer.items():
        begin, start, is_drained = 0, 0, False
        for mark in sorted(of_consumer, key=lambda mark: mark["place"]):
            if mark["kind"] == Kind.DRAINED:
                is_drained = True
                continue
            if is_drained:
                found[partition].append(Reader(name, begin, process, start, mark["place"]))
            begin, start, is_drained = mark["place"], max(mark["offset"] or 0, 0), False
        if is_drained:
            found[partition].append(Reader(name, begin, process, start, _FOREVER))
    for partition, readers in found.items():
        if len(readers) > _READERS_MAX:
            raise PipelineError(
                f"{len(readers)} consumers read {partition} to the end; the audit judges at most {_READERS_MAX}: "
                "leave some `drained` events out of the history"
            )
        readers.sort()
    return dict(found)


def log_starts_of(marks: Iterable[Row]) -> dict[str, int]:
    """By partition: the offset below which records were deleted on purpose."""
    found: dict[str, int] = {}
    for mark in marks:
        if mark["kind"] == Kind.LOG_START:
            found[mark["partition"]] = max(found.get(mark["partition"], 0), mark["offset"])
    return found


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
    log_starts: Mapping[str, int],
    store: str | None,
    open_from: Mapping[str, int],
) -> DataFrame:
    """``(partition, readers, all_bits, least_start, greatest_end, log_start, highest_stored)``: for each partition.

    ``highest`` has the highest offset of each reader, by partition and bit. No reader looked for records below
    ``least_start``, or from ``greatest_end`` on; null without readers. ``store`` is the name of the reader of the
    stored records, which gets none from ``open_from`` on.
    """
    rows = []
    for partition, seen in highest.items():
        of_partition = [
            (1 << index, each.name, each.start, _FOREVER) for index, each in enumerate(readers.get(partition, ()))
        ]
        if store is not None:
            of_partition.append((STORE_BIT, store, 0, open_from.get(partition, _FOREVER)))
        told = [(*reader, -1 if (end := seen.get(reader[0])) is None else end) for reader in of_partition]
        log_start = log_starts.get(partition, 0)
        least_start = min((max(start, log_start) for _, _, start, _ in of_partition), default=None)
        greatest_end = max((end for *_, end in of_partition), default=None)
        all_bits = sum(bit for bit, *_ in of_partition)
        told.sort(key=lambda reader: reader[1])
        rows.append((partition, told, all_bits, least_start, greatest_end, log_start, seen.get(STORE_BIT)))
    return spark.createDataFrame(rows, _BOUNDS)
