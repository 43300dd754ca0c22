"""One pass of Spark over a topic: sketches by partition and slot of time, which are then merged every way.

Records become cells: one for each partition and slot, with sums and with sketches of the keys (HyperLogLog), of the
sizes (KLL) and of frequent values. Sketches can be merged, so partitions, slots and the whole follow from the cells
in the same job. Records are read once, and the shuffled data does not grow with their number.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from minikafka.spark.pipelines.report.measures import (
    QUANTILES,
    Bin,
    Measures,
    Often,
    Slots,
    size_edges,
    trimmed,
)
from minikafka.spark.pipelines.topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

FORMAT: Final = "minikafka"
HOT_SHARE: Final = 0.0035
"""Of a key that occurs more rarely the sketch does not know how often it does."""

_TRACKED: Final = 1000  # keys; the error of a count is 3.5 / tracked of all records
_NAMES_TRACKED: Final = 100
_SHOWN: Final = 10
_HLL_BITS: Final = 12
_KLL_SIZE: Final = 400
_KEY_LENGTH_MAX: Final = 64
_PLAIN: Final = (
    *("records", "key_bytes", "value_bytes", "header_bytes", "keyless", "tombstones", "keys"),
    *("first_ms", "last_ms", "size_min", "size_max"),
)
_LARGEST_KNOWN: Final = 1 << 31


def records_of(spark: SparkSession, bootstrap_servers: str, topic: str, found: Topics) -> DataFrame:
    """The committed records of the topic at the look-up."""
    ends = {str(tp.partition): end for tp, (_, end) in found.extent.items()}
    reading = {
        "kafka.bootstrap.servers": bootstrap_servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "endingOffsets": json.dumps({topic: ends}),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    return spark.read.format(FORMAT).options(**reading).load()


def summarised(records: DataFrame, slots: Slots) -> DataFrame:
    """One row of measures for each partition (``partition``), for each slot (``slot``), and for all (neither)."""
    from pyspark.sql import functions as fn

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
            fn.expr(f"approx_top_k_accumulate(key_text, {_TRACKED})").alias("hot_keys"),
            fn.expr(f"approx_top_k_accumulate(header_names, {_NAMES_TRACKED})").alias("header_names"),
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
        fn.expr(f"approx_top_k_estimate(approx_top_k_combine(hot_keys, {_TRACKED}), {_SHOWN})").alias("hot_keys"),
        fn.expr(f"approx_top_k_estimate(approx_top_k_combine(header_names, {_NAMES_TRACKED}), {_SHOWN})").alias(
            "header_names"
        ),
    )


def _measured(slots: Slots) -> list[Column]:
    from pyspark.sql import functions as fn

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
        fn.when(fn.length(shown) > _KEY_LENGTH_MAX, cut).otherwise(shown).alias("key_text"),
        ms.alias("ms"),
        fn.greatest(fn.lit(-1), fn.least(fn.lit(slots.count), slot)).cast("int").alias("slot"),
        fn.coalesce(fn.octet_length("key"), fn.lit(0)).alias("key_bytes"),
        fn.coalesce(fn.octet_length("value"), fn.lit(0)).alias("value_bytes"),
        fn.coalesce(header_size, fn.lit(0)).alias("header_bytes"),
        fn.when(fn.size("headers") > 0, names).alias("header_names"),
        fn.col("key").isNull().alias("is_keyless"),
        fn.col("value").isNull().alias("is_tombstone"),
    ]


def measures(row: Row) -> Measures:
    """A row of :func:`summarised` as a value."""
    numbers: dict[str, Any] = row.asDict()
    return Measures(**{name: numbers[name] for name in _PLAIN}, size_quantiles=tuple(numbers["size_quantiles"]))


def size_bins(row: Row) -> tuple[Bin, ...]:
    """The sizes of the records of a row, in bins: a rank is the share of sizes below an edge."""
    edges = size_edges(_LARGEST_KNOWN)
    below = [round(rank * row["records"]) for rank in row["size_ranks"]]
    pairs = zip(edges, edges[1:], below, below[1:], strict=False)
    return trimmed([Bin(low, high, max(after - before, 0)) for low, high, before, after in pairs])


def often(estimates: list[Row] | None, records: int, least_share: float) -> tuple[Often, ...]:
    """Values with at least this share of the records, the most frequent first."""
    found = [Often(each["item"], min(each["count"], records)) for each in estimates or ()]
    return tuple(each for each in found if each.what is not None and each.records >= max(2, least_share * records))
