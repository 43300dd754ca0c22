"""From the rows of the scan to the report."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from minikafka.spark.pipelines.report import scan
from minikafka.spark.pipelines.report.measures import Measures, PartitionReport, Slots, TopicReport
from minikafka.spark.pipelines.running import Show, configured, show_nothing, watched_jobs
from minikafka.spark.pipelines.topics import Topics, at_edges, look_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

SLOTS_MAX: Final = 120
_CELLS_MAX: Final = 12_000  # partitions times slots: shuffled cells of some KiB
_SLOTS_MIN: Final = 12
_SAYS_SO: Final = "org.apache.datasketches.memory.internal.ResourceImpl"
_SORTED_BEYOND: Final = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"


def make_report(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap_servers: str,
    show: Show = show_nothing,
) -> TopicReport:
    """Read a topic once, from its beginning to its present end.

    Raises PipelineError, and KafkaError for a missing cluster or topic.
    """
    found = look_at(bootstrap_servers, topic)
    first_ms, last_ms = _time_range(bootstrap_servers, found)
    affordable = max(_SLOTS_MIN, _CELLS_MAX // max(len(found.extent), 1))
    slots = Slots.over(first_ms, last_ms, min(SLOTS_MAX, affordable))
    records = scan.records_of(spark, bootstrap_servers, topic, found)
    with watched_jobs(spark, show):
        return _report_of(records, topic, found, slots)


def _report_of(records: DataFrame, topic: str, found: Topics, slots: Slots) -> TopicReport:
    """The report of some records that have the columns of ``format("minikafka")`` with headers."""
    _silence_sketches(records.sparkSession)
    # Tasks keep the sketches of all cells at once; Spark would sort the records beyond 128 cells.
    with configured(records.sparkSession, {_SORTED_BEYOND: str(4 * _CELLS_MAX)}):
        rows = scan.summarised(records, slots).collect()
    by_partition = {row["partition"]: row for row in rows if row["partition"] is not None}
    by_slot = {row["slot"]: row for row in rows if row["slot"] is not None}
    (whole,) = (row for row in rows if row["partition"] is None and row["slot"] is None) if by_partition else (None,)
    total = _measures(whole)
    return TopicReport(
        topic=topic,
        cluster_id=found.cluster_id,
        made_ms=time.time_ns() // 1_000_000,
        total=total,
        partitions=tuple(
            PartitionReport(tp.partition, first, end, _measures(by_partition.get(tp.partition)))
            for tp, (first, end) in found.extent.items()
        ),
        slots=slots,
        over_time=tuple(_measures(by_slot.get(slot)) for slot in range(slots.count)),
        earlier=_measures(by_slot.get(-1)).records,
        later=_measures(by_slot.get(slots.count)).records,
        sizes=() if whole is None else scan.size_bins(whole),
        hot_keys=() if whole is None else scan.often(whole["hot_keys"], total.records, scan.HOT_SHARE),
        header_names=() if whole is None else scan.often(whole["header_names"], total.records, 0.0),
    )


def _measures(row: Row | None) -> Measures:
    return Measures() if row is None else scan.measures(row)


def _time_range(bootstrap_servers: str, found: Topics) -> tuple[int, int]:
    """The timestamps of the first and the last records, milliseconds; of an empty topic, now.

    Records in between may be earlier or later. They count, and their partitions have the exact range.
    """
    columns = (
        batch["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()) for batch in at_edges(bootstrap_servers, found)
    )
    times = [time_us // 1000 for column in columns for time_us in column.to_pylist()]
    now_ms = time.time_ns() // 1_000_000
    return min(times, default=now_ms), max(times, default=now_ms)


def _silence_sketches(spark: SparkSession) -> None:
    """Their library prints at its start, past any log, what Java forbids it; the report does not need that."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    jvm: Any = spark.sparkContext._jvm
    system = jvm.java.lang.System
    terminal = system.err
    system.setErr(jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream()))
    try:
        with suppress(Py4JError):  # another version, without that class
            jvm.java.lang.Class.forName(_SAYS_SO)
    finally:
        system.setErr(terminal)
