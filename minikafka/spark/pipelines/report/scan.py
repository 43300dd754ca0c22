"""One pass of Spark over a topic: sketches by partition and slot of time, which are then merged every way.

Records become cells: one for each partition and slot, with sums and with sketches of the keys (HyperLogLog), of the
sizes (KLL) and of frequent values. Sketches can be merged, so partitions, slots and the whole follow from the cells
in the same job. Records are read once, and the shuffled data does not grow with their number.
"""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import fields
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from minikafka.client import Security
from minikafka.client.security import PLAIN
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.report.measures import (
    QUANTILES,
    Bin,
    Measures,
    Often,
    PartitionReport,
    Slots,
    TopicReport,
    size_edges,
    trimmed,
)
from minikafka.spark.pipelines.running import Show, configured, show_nothing, watched_jobs
from minikafka.spark.pipelines.topics import Topics, at_edges, look_at

SLOTS_MAX: Final = 120
_CELLS_MAX: Final = 12_000  # partitions times slots: shuffled cells of some KiB
_SLOTS_MIN: Final = 12
_SAYS_SO: Final = "org.apache.datasketches.memory.internal.ResourceImpl"
_SORTED_BEYOND: Final = "spark.sql.objectHashAggregate.sortBased.fallbackThreshold"
FORMAT: Final = "minikafka"
HOT_SHARE: Final = 0.0035
"""Of a key that occurs more rarely the sketch does not know how often it does."""

_TRACKED: Final = {"hot_keys": 1000, "header_names": 100}  # the error of a count is 3.5 / tracked of all records
_SHOWN: Final = 10
_HLL_BITS: Final = 12
_KLL_SIZE: Final = 400
_KEY_LENGTH_MAX: Final = 64
_LARGEST_KNOWN: Final = 1 << 31


def make_report(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap_servers: str,
    security: Security = PLAIN,
    show: Show = show_nothing,
) -> TopicReport:
    """Read a topic once, from its beginning to its present end.

    Raises PipelineError, and KafkaError for a missing cluster or topic.
    """
    brokers = Brokers(bootstrap_servers, security)
    found = look_at(brokers, topic)
    first_ms, last_ms = _time_range(brokers, found)
    affordable = max(_SLOTS_MIN, _CELLS_MAX // max(len(found.extent), 1))
    slots = Slots.over(first_ms, last_ms, min(SLOTS_MAX, affordable))
    records = records_of(spark, brokers, topic, found)
    with watched_jobs(spark, show):
        return _report_of(records, topic, found, slots)


def _report_of(records: DataFrame, topic: str, found: Topics, slots: Slots) -> TopicReport:
    """The report of some records that have the columns of ``format("minikafka")`` with headers."""
    _silence_sketches(records.sparkSession)
    # Tasks keep the sketches of all cells at once; Spark would sort the records beyond 128 cells.
    with configured(records.sparkSession, {_SORTED_BEYOND: str(4 * _CELLS_MAX)}):
        rows = {(row["partition"], row["slot"]): row for row in summarised(records, slots).collect()}
    whole = rows.get((None, None))  # missing if the topic is empty
    return TopicReport(
        topic=topic,
        cluster_id=found.cluster_id,
        made_ms=time.time_ns() // 1_000_000,
        total=_measures(whole),
        partitions=tuple(
            PartitionReport(tp.partition, first, end, _measures(rows.get((tp.partition, None))))
            for tp, (first, end) in found.extent.items()
        ),
        slots=slots,
        over_time=tuple(_measures(rows.get((None, slot))) for slot in range(slots.count)),
        earlier=_measures(rows.get((None, -1))).records,
        later=_measures(rows.get((None, slots.count))).records,
        sizes=_size_bins(whole) if whole else (),
        hot_keys=_often(whole, "hot_keys", HOT_SHARE) if whole else (),
        header_names=_often(whole, "header_names", 0.0) if whole else (),
    )


def _time_range(brokers: Brokers, found: Topics) -> tuple[int, int]:
    """The timestamps of the first and the last records, milliseconds; of an empty topic, now.

    Records in between may be earlier or later. They count, and their partitions have the exact range.
    """
    columns = (batch["timestamp"].cast(pa.timestamp("us")).cast(pa.int64()) for batch in at_edges(brokers, found))
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


def records_of(spark: SparkSession, brokers: Brokers, topic: str, found: Topics) -> DataFrame:
    """The committed records of the topic at the look-up."""
    ends = {str(tp.partition): end for tp, (_, end) in found.extent.items()}
    reading = {
        **brokers.options,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({topic: ends}),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    return spark.read.format(FORMAT).options(**reading).load()


def summarised(records: DataFrame, slots: Slots) -> DataFrame:
    """One row of measures for each partition (``partition``), for each slot (``slot``), and for all (neither)."""
    sizes = ("key_bytes", "value_bytes", "header_bytes")
    size = sum((fn.col(each) for each in sizes), fn.lit(0)).cast("bigint")
    cells = (
        records.select("partition", *_measured(slots))
        .withColumn("size", size)
        .groupBy("partition", "slot")
        .agg(
            fn.count("*").alias("records"),
            *(fn.sum(each).alias(each) for each in sizes),
            fn.count_if("is_keyless").alias("keyless"),
            fn.count_if("is_tombstone").alias("tombstones"),
            fn.min("ms").alias("first_ms"),
            fn.max("ms").alias("last_ms"),
            fn.min("size").alias("size_min"),
            fn.max("size").alias("size_max"),
            fn.hll_sketch_agg("key", _HLL_BITS).alias("keys"),
            fn.kll_sketch_agg_bigint("size", _KLL_SIZE).alias("sizes"),
            *(fn.expr(f"approx_top_k_accumulate({each}, {tracked})").alias(each) for each, tracked in _TRACKED.items()),
        )
    )
    summed = ("records", *sizes, "keyless", "tombstones")
    quantiles = fn.array(*map(fn.lit, QUANTILES))
    last_below = fn.array(*(fn.lit(edge - 1).cast("bigint") for edge in size_edges(_LARGEST_KNOWN)))
    merged = fn.kll_merge_agg_bigint("sizes", _KLL_SIZE)
    return cells.groupingSets([["partition"], ["slot"], []], "partition", "slot").agg(
        *(fn.sum(each).alias(each) for each in summed),
        *(fn.min(each).alias(each) for each in ("first_ms", "size_min")),
        *(fn.max(each).alias(each) for each in ("last_ms", "size_max")),
        fn.hll_sketch_estimate(fn.hll_union_agg("keys")).alias("keys"),
        fn.kll_sketch_get_quantile_bigint(merged, quantiles).alias("size_quantiles"),
        fn.kll_sketch_get_rank_bigint(merged, last_below).alias("size_ranks"),
        *(
            fn.expr(f"approx_top_k_estimate(approx_top_k_combine({each}, {tracked}), {_SHOWN})").alias(each)
            for each, tracked in _TRACKED.items()
        ),
    )


def _measured(slots: Slots) -> list[Column]:
    text = fn.col("key").cast("string")
    shown = fn.when(fn.is_valid_utf8(text), text).otherwise(fn.concat(fn.lit("0x"), fn.hex("key")))
    cut = fn.concat(fn.substring(shown, 1, _KEY_LENGTH_MAX), fn.lit("… #"), fn.hex(fn.xxhash64("key")))
    ms = fn.unix_millis("timestamp")
    slot = fn.floor((ms - fn.lit(slots.start_ms)) / fn.lit(slots.step_ms))
    header_size = fn.aggregate(
        "headers",
        fn.lit(0),
        lambda size, header: (
            size + fn.octet_length(header["key"]) + fn.coalesce(fn.octet_length(header["value"]), fn.lit(0))
        ),
    )
    names = fn.array_join(fn.transform("headers", lambda header: header["key"]), ", ")
    return [
        fn.col("key"),
        fn.when(fn.length(shown) > _KEY_LENGTH_MAX, cut).otherwise(shown).alias("hot_keys"),
        ms.alias("ms"),
        fn.greatest(fn.lit(-1), fn.least(fn.lit(slots.count), slot)).cast("int").alias("slot"),
        fn.coalesce(fn.octet_length("key"), fn.lit(0)).alias("key_bytes"),
        fn.coalesce(fn.octet_length("value"), fn.lit(0)).alias("value_bytes"),
        fn.coalesce(header_size, fn.lit(0)).alias("header_bytes"),
        fn.when(fn.size("headers") > 0, names).alias("header_names"),
        fn.col("key").isNull().alias("is_keyless"),
        fn.col("value").isNull().alias("is_tombstone"),
    ]


def _measures(row: Row | None) -> Measures:
    """A row of :func:`summarised` as a value."""
    if row is None:
        return Measures()
    numbers = {each.name: row[each.name] for each in fields(Measures)}
    return Measures(**numbers | {"size_quantiles": tuple(row["size_quantiles"])})


def _size_bins(row: Row) -> tuple[Bin, ...]:
    """The sizes of the records of a row, in bins: a rank is the share of sizes below an edge."""
    edges = size_edges(_LARGEST_KNOWN)
    below = [round(rank * row["records"]) for rank in row["size_ranks"]]
    pairs = zip(pairwise(edges), pairwise(below), strict=False)
    return trimmed([Bin(low, high, max(after - before, 0)) for (low, high), (before, after) in pairs])


def _often(row: Row, estimates: str, least_share: float) -> tuple[Often, ...]:
    """Values with at least this share of the records of a row, the most frequent first."""
    records = row["records"]
    found = [Often(each["item"], min(each["count"], records)) for each in row[estimates] or ()]
    return tuple(each for each in found if each.what is not None and each.records >= max(2, least_share * records))
