"""Finds the offsets in which the replicas of a partition differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as fn

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_WHERE = ("topic", "partition")


def compare_replicas(logs: DataFrame, *, ignore_missing: bool = False) -> DataFrame:
    """The offsets at which replicas, read by ``minikafka-log`` with ``replicas=all``, have different records.

    Columns: topic, partition, offset, ``missing`` (the replicas without the record) and ``copies`` (replica,
    leaderEpoch, segment, position and digest of each copy). No rows: the replicas agree.

    A partition is compared from the first offset that all replicas have, since each deletes old segments at its own
    time, up to the lowest high watermark: records above may differ. Nodes also compact at their own time: for compacted
    topics, ``ignore_missing`` compares only existing records. A record is compared with its
    key, value, headers (if they are read), timestamp, leader epoch and producer. A replica without rows, or
    without a known high watermark, is not compared. With ``mode=permissive`` a damaged replica has rows.
    """
    rows = logs.withColumn("replica", fn.coalesce(fn.col("replica").cast("string"), "directory"))
    copies = rows.where("timestamp IS NOT NULL").select(  # and not told to be damaged
        *_WHERE, "offset", "replica", "leaderEpoch", "segment", "position", _digest(logs).alias("digest")
    )
    replicas = rows.groupBy(*_WHERE, "replica").agg(
        fn.min("offset").alias("first"), fn.max("highWatermark").alias("highWatermark")
    )
    bounds = (
        replicas.where("highWatermark IS NOT NULL")
        .groupBy(*_WHERE)
        .agg(
            fn.max("first").alias("first"), fn.min("highWatermark").alias("end"), fn.collect_set("replica").alias("all")
        )
    )
    copy = fn.struct("replica", "leaderEpoch", "segment", "position", "digest")
    by_offset = (
        copies.join(fn.broadcast(bounds), list(_WHERE))
        .where("offset >= first AND offset < end")
        .groupBy(*_WHERE, "offset")
        .agg(
            fn.sort_array(fn.collect_list(copy)).alias("copies"),
            fn.size(fn.collect_set("digest")).alias("variants"),
            fn.first("all").alias("all"),
        )
    )
    missing = fn.sort_array(fn.array_except("all", "copies.replica"))
    differ = fn.col("variants") > 1 if ignore_missing else (fn.col("variants") > 1) | (fn.size("missing") > 0)
    return by_offset.withColumn("missing", missing).where(differ).select(*_WHERE, "offset", "missing", "copies")


def _digest(logs: DataFrame) -> Column:
    """Equal for equal records; a null and an empty value are not equal."""
    names = ["key", "value", "timestamp", "timestampType", "leaderEpoch", "producerId", "producerEpoch", "baseSequence"]
    names += [name for name in ("headers", "isControl") if name in logs.columns]
    return fn.xxhash64(*names, fn.isnull("key"), fn.isnull("value"))
