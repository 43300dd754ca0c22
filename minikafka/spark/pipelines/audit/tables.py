"""The items, brought together.

* :func:`sightings`: ``(partition, id, offset)``, and what was said of it there. One shuffle brings together what
  belongs to a record; it is kept on disk, and everything but the order of polls is derived from it.
* :func:`records`: a row for each record, from the sightings without another shuffle.
* :func:`offsets`: a row for each offset at which a record was seen.
* :func:`sequences`: what a process sent, one after another.
* :func:`steps`: what a process saw, one after another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as fn

from minikafka.spark.pipelines.audit.history import Kind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def sightings(items: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, id, offset, sends, process, place, failed, acknowledged, read, stored, drained)``.

    That a record was sent or refused has no offset; that a partition was drained has no id either.
    """
    is_sent = _is(Kind.SENT)
    together = items.repartition(shuffle_partitions, "partition", "id")
    return together.groupBy("partition", "id", "offset").agg(
        fn.count_if(is_sent).alias("sends"),
        fn.min(fn.when(is_sent, fn.col("process"))).alias("process"),
        fn.min(fn.when(is_sent, fn.col("place"))).alias("place"),
        fn.max(_is(Kind.FAILED)).alias("failed"),
        fn.max(_is(Kind.ACKNOWLEDGED)).alias("acknowledged"),
        fn.max(_is(Kind.READ, Kind.STORED)).alias("read"),
        fn.max(_is(Kind.STORED)).alias("stored"),
        fn.max(_is(Kind.DRAINED)).alias("drained"),
    )


def bounds(sightings: DataFrame) -> DataFrame:
    """``(partition, highest_read, highest_stored, drained)``: a row for each partition."""
    return sightings.groupBy("partition").agg(
        fn.coalesce(fn.max(fn.when(fn.col("read"), fn.col("offset"))), fn.lit(-1)).alias("highest_read"),
        fn.max(fn.when(fn.col("stored"), fn.col("offset"))).alias("highest_stored"),
        fn.max("drained").alias("drained"),
    )


def records(sightings: DataFrame) -> DataFrame:
    """``(partition, id, sends, process, place, failed, acknowledged_at, read_at, lowest, highest, offsets, at)``.

    ``..._at`` are the lowest such offsets, or null; ``offsets`` is how many there are; ``at`` is where the record is,
    as far as anyone knows.
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
            acknowledged_at.alias("acknowledged_at"),
            read_at.alias("read_at"),
            fn.min("offset").alias("lowest"),
            fn.max("offset").alias("highest"),
            fn.count("offset").alias("offsets"),
        )
        .withColumn("at", fn.coalesce("acknowledged_at", "read_at"))
    )


def sequences(records: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, process, place, id, at, highest, before)``: what was sent, where it is, and the highest offset of
    what its process sent before, with the ``(at, place, id)`` of that."""
    earlier = Window.partitionBy("partition", "process").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    placed = records.filter(fn.col("place").isNotNull() & fn.col("at").isNotNull())
    return placed.repartition(shuffle_partitions, "partition", "process").select(
        *("partition", "process", "place", "id", "at"),
        fn.max("at").over(earlier).alias("highest"),
        fn.max(fn.struct("at", "place", "id")).over(earlier).alias("before"),
    )


def offsets(sightings: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, offset, acknowledged, read_only, stored)``: how many records were acknowledged there, and how many
    were read there that were not acknowledged there."""
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
    """``(partition, process, kind, id, offset, kind_before, before)`` of what was read, assigned and seen as end.

    Ends are a sequence of their own.
    """
    is_end = _is(Kind.END_OFFSET)
    in_order = Window.partitionBy("partition", "process", "is_end").orderBy("place")
    return items.withColumn("is_end", is_end).select(
        "*", fn.lag("kind").over(in_order).alias("kind_before"), fn.lag("offset").over(in_order).alias("before")
    )


def _is(*kinds: Kind) -> Column:
    return fn.col("kind").isin([int(kind) for kind in kinds])
