"""The items, grouped.

* :func:`sightings`  per ``(partition, id, offset)`` the events and the readers. One shuffle groups the items of a
  record; it is kept on disk, and all tables but the order of polls are derived from it.
* :func:`highest`    the highest offset of each reader
* :func:`records`    a row for each record, from the sightings without another shuffle
* :func:`sends`      a process's sends, in order
* :func:`places`     the records at each offset
* :func:`steps`      a process's reads, in order
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from minikafka.spark.pipelines.audit.history import Kind, is_kind
from minikafka.spark.pipelines.audit.readers import STORE_BIT
from minikafka.spark.pipelines.audit.stored import READER


def sightings(items: DataFrame, readers: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, id, offset, sends, process, place, failed, acknowledged, read, resent, seen_by)``.

    Sends, refusals, acknowledgements without an offset, and what is said to be resent have a null offset. ``seen_by``
    has the bits of the ``readers`` (``readers.intervals``) that got the record. Other items say that there is a
    partition: their id is null.
    """
    is_sent = is_kind(Kind.SENT)
    together = _seen(items, readers).repartition(shuffle_partitions, "partition", "id")
    offset = fn.when(fn.col("id").isNotNull(), fn.col("offset")).alias("offset")
    return together.groupBy("partition", "id", offset).agg(
        fn.count_if(is_sent).alias("sends"),
        fn.min(fn.when(is_sent, fn.col("process"))).alias("process"),
        fn.min(fn.when(is_sent, fn.col("place"))).alias("place"),
        fn.max(is_kind(Kind.FAILED)).alias("failed"),
        fn.max(is_kind(Kind.ACKNOWLEDGED)).alias("acknowledged"),
        fn.max(is_kind(Kind.READ, Kind.STORED)).alias("read"),
        fn.max(is_kind(Kind.RESENT)).alias("resent"),
        fn.bit_or("bit").alias("seen_by"),
    )


def _seen(items: DataFrame, readers: DataFrame) -> DataFrame:
    """Adds the ``bit`` of the reader that got the record, or 0.

    It joins by one number, which only reads have: a join by text for every item takes a fifth longer.
    """
    reader = readers.select(*(fn.col(name).alias(f"reader_{name}") for name in readers.columns))
    key = fn.when(is_kind(Kind.READ), fn.xxhash64("partition", "process"))
    is_handed = key == fn.xxhash64("reader_partition", "reader_process")
    is_handed &= (fn.col("partition") == fn.col("reader_partition")) & (fn.col("process") == fn.col("reader_process"))
    is_handed &= (fn.col("place") >= fn.col("reader_begin")) & (fn.col("place") < fn.col("reader_end"))
    bit = fn.when(is_kind(Kind.STORED), fn.lit(STORE_BIT)).otherwise(fn.coalesce("reader_bit", fn.lit(0)))
    return items.join(fn.broadcast(reader), is_handed, "left").select(*items.columns, bit.alias("bit"))


def highest(sightings: DataFrame, bits: Sequence[int]) -> dict[str, dict[int, int | None]]:
    """The highest offset of each reader, by partition and bit."""
    columns = [fn.max(fn.when(_has_bit(bit), fn.col("offset"))).alias(str(bit)) for bit in bits]
    rows = sightings.groupBy("partition").agg(fn.count("*").alias("count"), *columns).collect()
    return {row["partition"]: {bit: row[str(bit)] for bit in bits} for row in rows}


def records(sightings: DataFrame) -> DataFrame:
    """``(partition, id, sends, process, place, failed, acknowledged, resent, read_at, lowest, highest, offsets,
    seen_by, at)``.

    ``read_at`` is the lowest such offset, or null; ``offsets`` is their number; ``at`` is the offset of the record, if
    known.
    """
    acknowledged_at = fn.min(fn.when(fn.col("acknowledged"), fn.col("offset")))
    read_at = fn.min(fn.when(fn.col("read"), fn.col("offset")))
    return sightings.groupBy("partition", "id").agg(
        fn.sum("sends").alias("sends"),
        fn.min("process").alias("process"),
        fn.min("place").alias("place"),
        fn.max("failed").alias("failed"),
        fn.max("acknowledged").alias("acknowledged"),
        fn.max("resent").alias("resent"),
        read_at.alias("read_at"),
        fn.min("offset").alias("lowest"),
        fn.max("offset").alias("highest"),
        fn.count("offset").alias("offsets"),
        fn.bit_or("seen_by").alias("seen_by"),
        fn.coalesce(acknowledged_at, read_at).alias("at"),
    )


def sends(records: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, process, id, at, highest, before)``: sends with their offsets, and the highest offset of the
    process's earlier sends, with its ``(at, place, id)``."""
    earlier = Window.partitionBy("partition", "process").orderBy("place").rowsBetween(Window.unboundedPreceding, -1)
    placed = records.filter(fn.col("place").isNotNull() & fn.col("at").isNotNull())
    return placed.repartition(shuffle_partitions, "partition", "process").select(
        *("partition", "process", "id", "at"),
        fn.max("at").over(earlier).alias("highest"),
        fn.max(fn.struct("at", "place", "id")).over(earlier).alias("before"),
    )


def places(sightings: DataFrame, shuffle_partitions: int) -> DataFrame:
    """``(partition, offset, id, acknowledged, first)``: the records at each offset, and the first of them: acknowledged
    ones come first."""
    here = Window.partitionBy("partition", "offset").orderBy(fn.desc("acknowledged"), "id")
    placed = sightings.filter(fn.col("offset").isNotNull()).select("partition", "offset", "id", "acknowledged")
    together = placed.repartition(shuffle_partitions, "partition", "offset")
    return together.withColumn("first", fn.first("id").over(here))


def stored_reads(sightings: DataFrame) -> DataFrame:
    """The stored records as items, in the order of their offsets."""
    return sightings.filter(_has_bit(STORE_BIT)).select(
        "partition",
        fn.xxhash64(fn.lit(READER)).alias("process"),
        fn.col("offset").alias("place"),
        fn.lit(int(Kind.STORED)).cast("tinyint").alias("kind"),
        "id",
        "offset",
    )


def steps(items: DataFrame) -> DataFrame:
    """``(partition, process, kind, id, offset, kind_before, before, is_assigned)`` of reads, assignments and
    observed ends.

    ``before`` is the previous offset; for a first record the one before the start, if known. Ends are a sequence of
    their own.
    """
    is_assignment = is_kind(Kind.ASSIGNED)
    in_order = Window.partitionBy("partition", "process", "is_end").orderBy("place")
    before = fn.when(is_assignment, fn.col("offset") - 1).otherwise(fn.col("offset"))
    return items.withColumn("is_end", is_kind(Kind.END_OFFSET)).select(
        "*",
        fn.lag("kind").over(in_order).alias("kind_before"),
        fn.lag(before).over(in_order).alias("before"),
        fn.max(is_assignment | is_kind(Kind.STORED)).over(in_order).alias("is_assigned"),
    )


def _has_bit(bit: int) -> Column:
    return fn.col("seen_by").bitwiseAND(fn.lit(bit)) != 0
