"""The items, grouped.

* :func:`sightings`: per ``(partition, id, offset)`` the events and the readers. One shuffle groups the items of a
record; it is kept on disk, and all tables but the order of polls are derived from it. * :func:`highest`: the highest
offset of each reader. * :func:`records`: a row for each record, from the sightings without another shuffle. *
:func:`offsets`: a row for each offset at which a record was seen. * :func:`sequences`: a process's sends, in order. *
:func:`steps`: a process's reads, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from minikafka.spark.pipelines.audit.history import Kind
from minikafka.spark.pipelines.audit.readers import STORE_BIT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame


def sightings(items: DataFrame, readers: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, id, offset, sends, process, place, failed, acknowledged, read, stored, seen_by)``.

    Sends, refusals and acknowledgements without an offset have a null offset. ``seen_by`` has the bits of the
    ``readers`` (``readers.intervals``) that got the record.
    """
    is_sent = _is(Kind.SENT)
    together = _seen(items, readers).repartition(shuffle_partitions, "partition", "id")
    return together.groupBy("partition", "id", "offset").agg(
        fn.count_if(is_sent).alias("sends"),
        fn.min(fn.when(is_sent, fn.col("process"))).alias("process"),
        fn.min(fn.when(is_sent, fn.col("place"))).alias("place"),
        fn.max(_is(Kind.FAILED)).alias("failed"),
        fn.max(_is(Kind.ACKNOWLEDGED)).alias("acknowledged"),
        fn.max(_is(Kind.READ, Kind.STORED)).alias("read"),
        fn.max(_is(Kind.STORED)).alias("stored"),
        fn.bit_or("bit").alias("seen_by"),
    )


def _seen(items: DataFrame, readers: DataFrame) -> DataFrame:
    """Adds the ``bit`` of the reader that got the record, or 0.

    It joins by one number, which only reads have: a join by text for every item takes a fifth longer.
    """
    reader = readers.select(*(fn.col(name).alias(f"reader_{name}") for name in readers.columns))
    key = fn.when(_is(Kind.READ), fn.xxhash64("partition", "process"))
    is_handed = key == fn.xxhash64("reader_partition", "reader_process")
    is_handed &= (fn.col("partition") == fn.col("reader_partition")) & (fn.col("process") == fn.col("reader_process"))
    is_handed &= (fn.col("place") >= fn.col("reader_begin")) & (fn.col("place") < fn.col("reader_end"))
    bit = fn.when(_is(Kind.STORED), fn.lit(STORE_BIT)).otherwise(fn.coalesce("reader_bit", fn.lit(0)))
    return items.join(fn.broadcast(reader), is_handed, "left").select(*items.columns, bit.alias("bit"))


def highest(sightings: DataFrame, bits: Sequence[int]) -> dict[str, dict[int, int | None]]:
    """The highest offset of each reader, by partition and bit."""
    seen_by, offset = fn.col("seen_by"), fn.col("offset")
    columns = [fn.max(fn.when(seen_by.bitwiseAND(fn.lit(bit)) != 0, offset)).alias(str(bit)) for bit in bits]
    rows = sightings.groupBy("partition").agg(fn.count("*").alias("count"), *columns).collect()
    return {row["partition"]: {bit: row[str(bit)] for bit in bits} for row in rows}


def records(sightings: DataFrame) -> DataFrame:
    """``(partition, id, sends, process, place, failed, acknowledged, acknowledged_at, read_at, lowest, highest,
    offsets, seen_by, at)``.

    ``..._at`` are the lowest such offsets, or null; ``offsets`` is their number; ``at`` is the offset of the record,
    if known.
    """
    acknowledged_at = fn.min(fn.when(fn.col("acknowledged"), fn.col("offset")))
    read_at = fn.min(fn.when(fn.col("read"), fn.col("offset")))
    return (
        sightings.filter(fn.col("id").isNotNull())
        .groupBy("partition", "id")
        .agg(
            fn.sum("sends").alias("sends"),
            fn.min("process").alias("process"),
            fn.min("place").alias("place"),
            fn.max("failed").alias("failed"),
            fn.max("acknowledged").alias("acknowledged"),
            acknowledged_at.alias("acknowledged_at"),
            read_at.alias("read_at"),
            fn.min("offset").alias("lowest"),
            fn.max("offset").alias("highest"),
            fn.count("offset").alias("offsets"),
            fn.bit_or("seen_by").alias("seen_by"),
        )
        .withColumn("at", fn.coalesce("acknowledged_at", "read_at"))
    )


def sequences(records: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, process, place, id, at, highest, before)``: sends with their offsets, and the highest offset of the
    process's earlier sends, with its ``(at, place, id)``."""
    earlier = Window.partitionBy("partition", "process").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    placed = records.filter(fn.col("place").isNotNull() & fn.col("at").isNotNull())
    return placed.repartition(shuffle_partitions, "partition", "process").select(
        *("partition", "process", "place", "id", "at"),
        fn.max("at").over(earlier).alias("highest"),
        fn.max(fn.struct("at", "place", "id")).over(earlier).alias("before"),
    )


def offsets(sightings: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, offset, acknowledged, read_only, stored)``: number of records that were acknowledged
    there, and of those that were only read there."""
    return (
        sightings.filter(fn.col("offset").isNotNull())
        .select("partition", "offset", "acknowledged", "stored")
        .repartition(shuffle_partitions, "partition", "offset")
        .groupBy("partition", "offset")
        .agg(
            fn.count_if(fn.col("acknowledged")).alias("acknowledged"),
            fn.count_if(~fn.col("acknowledged")).alias("read_only"),
            fn.max("stored").alias("stored"),
        )
    )


def steps(items: DataFrame) -> DataFrame:
    """``(partition, process, kind, id, offset, kind_before, before, is_assigned)`` of reads, assignments and
    observed ends.

    ``before`` is the previous offset; for a first record the one before the start, if known. Ends are a sequence of
    their own.
    """
    is_end, is_assignment = _is(Kind.END_OFFSET), _is(Kind.ASSIGNED)
    in_order = Window.partitionBy("partition", "process", "is_end").orderBy("place")
    before = fn.when(is_assignment, fn.greatest("offset", fn.lit(0)) - 1).otherwise(fn.col("offset"))
    before = fn.when(fn.col("offset").isNotNull(), before)
    return items.withColumn("is_end", is_end).select(
        "*",
        fn.lag("kind").over(in_order).alias("kind_before"),
        fn.lag(before).over(in_order).alias("before"),
        fn.max(is_assignment).over(in_order).alias("is_assigned"),
    )


def _is(*kinds: Kind) -> Column:
    return fn.col("kind").isin([int(kind) for kind in kinds])
