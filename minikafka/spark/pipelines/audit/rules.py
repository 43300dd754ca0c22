"""The rules of ``ledger.checker``, over tables.

A violation is a row ``(partition, rule, at, sentence)``; ``at`` orders examples. Most rules look at one row of a table:
so one pass over it finds the violations of all its rules. Spark makes sentences only for actual violations.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from minikafka.ledger.sentences import SENTENCES, UNKNOWN_PLACE
from minikafka.spark.pipelines.audit import tables
from minikafka.spark.pipelines.audit.history import Kind, is_kind, or_refuse

UNASSIGNED: Final = "unassigned"
"""No rule: a row for each consumer that was handed records before it was assigned; its sentence is the name."""


def figures(records: DataFrame) -> DataFrame:
    """By partition: what is counted of records and breaks no rule. ``records`` have the bounds of their partition.

    A record that was sent twice ends the job with a sentence.
    """
    acknowledged = fn.col("acknowledged")
    twice = fn.format_string(
        "%s was sent %d times to %s: a history must send each id once, or nobody can say which of them is there",
        *("id", "sends", "partition"),
    )
    is_sent = or_refuse(fn.col("sends") <= 1, fn.col("sends") > 0, twice)
    is_deleted = fn.coalesce(fn.col("at") < fn.col("log_start"), fn.lit(False))
    return records.groupBy("partition").agg(
        fn.count_if(is_sent).alias("sent"),
        fn.count_if(acknowledged).alias("acknowledged"),
        fn.count_if(fn.col("read_at").isNotNull()).alias("read"),
        fn.count_if((fn.col("sends") > 0) & ~acknowledged & ~fn.col("failed")).alias("unknown"),
        fn.count_if(acknowledged & ~is_deleted & ~fn.exists("readers", _must_get)).alias("unjudged"),
        fn.count_if(fn.col("resent") & (fn.col("lowest") < fn.col("highest"))).alias("resent"),
        fn.count_if(acknowledged & is_deleted).alias("deleted"),
    )


def violations(
    records: DataFrame, sightings: DataFrame, steps: DataFrame, bounds: DataFrame, names: DataFrame, tasks: int
) -> DataFrame:
    """All violations. ``names`` are those of processes."""
    names = fn.broadcast(names)
    steps = steps.join(names, "process", "left")
    sends = tables.sends(records, tasks).join(names, "process", "left")
    found = (
        _of_records(records),
        _of_sends(sends),
        _of_places(tables.places(sightings, tasks)),
        _of_steps(steps),
        _skipped(steps, sightings, bounds),
    )
    return reduce(DataFrame.union, found)


def _violation(rule: str, is_broken: Column, at: str, *told: str | Column) -> Column:
    """Of one row; null if it breaks no rule."""
    sentence = fn.format_string(SENTENCES[rule], *told)
    return fn.when(is_broken, fn.struct(fn.lit(rule).alias("rule"), fn.col(at).alias("at"), sentence.alias("sentence")))


def _violations(table: DataFrame, *found: Column) -> DataFrame:
    """Of all rows of a table."""
    broken = table.select("partition", fn.explode(fn.array_compact(fn.array(*found))).alias("violation"))
    return broken.select("partition", "violation.*")


def _of_records(records: DataFrame) -> DataFrame:
    acknowledged, at = fn.col("acknowledged"), fn.col("at")
    is_repeated = fn.col("lowest") < fn.col("highest")
    is_there = acknowledged | fn.col("read_at").isNotNull()
    is_gone = is_there & fn.col("witness").isNotNull()
    is_passed_over = at.isNull() | (at < fn.col("witness.highest"))
    record = ("id", fn.coalesce(at.cast("string"), fn.lit(UNKNOWN_PLACE)))
    witness = ("witness.name", "witness.highest")
    return _violations(
        records.withColumn("witness", _witness()),
        # Acknowledged, and missing for a reader that got later records.
        _violation("lost-write", is_gone & acknowledged & is_passed_over, "at", *record, *witness),
        # Acknowledged, and beyond the last record of a reader.
        _violation("unseen", is_gone & acknowledged & ~is_passed_over, "at", *record, *witness),
        # Of unknown outcome, read by a consumer, and missing for a reader.
        _violation("dirty-read", is_gone & ~acknowledged, "at", *record, *witness),
        # One record at two offsets, though its producer sent it once.
        _violation("duplicate", is_repeated & ~fn.col("resent"), "lowest", "id", "offsets", "lowest", "highest"),
        # Read or acknowledged, but never sent.
        _violation("phantom", is_there & (fn.col("sends") == 0), "at", *record),
        # Read, although the producer was told that it failed.
        _violation("aborted-read", fn.col("failed") & fn.col("read_at").isNotNull(), "read_at", "id", "read_at"),
    )


def _must_get(reader: Column) -> Column:
    """True when a reader had to get the record."""
    known = fn.coalesce("at", fn.lit(0))
    return (known >= reader["start"]) & (known < reader["end"])


def _witness() -> Column:
    """A reader that had to get the record and did not: the first that got later records, else the first; or null."""
    at, seen_by = fn.col("at"), fn.col("seen_by")
    missed = fn.filter("readers", lambda reader: _must_get(reader) & (seen_by.bitwiseAND(reader["bit"]) == 0))
    passed = fn.filter(missed, lambda reader: at.isNull() | (reader["highest"] > at))
    return fn.coalesce(fn.get(passed, fn.lit(0)), fn.get(missed, fn.lit(0)))


def _of_sends(sends: DataFrame) -> DataFrame:
    is_overtaken = fn.col("at") < fn.col("highest")
    # A producer's later record at a lower offset than an earlier one.
    told = ("name", "id", "before.id", "at", "highest")
    return _violations(sends, _violation("nonmonotonic-send", is_overtaken, "at", *told))


def _of_places(places: DataFrame) -> DataFrame:
    acknowledged, is_another = fn.col("acknowledged"), fn.col("id") != fn.col("first")
    return _violations(
        places,
        # Two records acknowledged at one offset.
        _violation("reused-offset", is_another & acknowledged, "offset", "first", "id", "offset"),
        # A record read at an offset at which another was acknowledged, or else read.
        _violation("inconsistent-offsets", is_another & ~acknowledged, "offset", "offset", "first", "id"),
    )


def _of_steps(steps: DataFrame) -> DataFrame:
    offset, before = fn.col("offset"), fn.col("before")
    moved = fn.struct(fn.lit(UNASSIGNED).alias("rule"), offset.alias("at"), fn.col("name").alias("sentence"))
    is_read, is_end = is_kind(Kind.READ, Kind.STORED), is_kind(Kind.END_OFFSET)
    return _violations(
        steps,
        # A consumer got an offset below its position.
        _violation("nonmonotonic-poll", is_read & (offset <= before), "offset", "name", "id", "offset", before + 1),
        # One process saw the end of the partition move back.
        _violation("nonmonotonic-end-offset", is_end & (offset < before), "offset", "name", "before", "offset"),
        fn.when(is_kind(Kind.READ) & fn.col("kind_before").isNull(), moved),
    )


def _skipped(steps: DataFrame, sightings: DataFrame, bounds: DataFrame) -> DataFrame:
    """An assigned consumer missed a record between its position and the next that it got. Mostly there is none."""
    reads = (Kind.READ, Kind.STORED)
    is_next = is_kind(*reads, Kind.ASSIGNED, of="kind_before")
    is_gap = is_kind(*reads) & is_next & (fn.col("offset") > fn.col("before") + 1)
    below = bounds.select("partition", (fn.col("log_start") - 1).alias("below"))  # there may be no records any more
    gaps = (
        steps.filter(is_gap & fn.col("is_assigned"))
        .join(fn.broadcast(below), "partition")
        .withColumn("from", fn.greatest("before", "below"))
    )
    from_above = Window.partitionBy("partition").orderBy(fn.desc("from")).rowsBetween(Window.unboundedPreceding, -1)
    known = sightings.filter(fn.col("offset").isNotNull()).select("partition", fn.col("offset").alias("from"), "offset")
    starts = bounds.select("partition", fn.explode("starts").alias("from"), fn.lit(None).cast("bigint").alias("offset"))
    places = known.union(starts.withColumn("from", fn.col("from") - 1)).groupBy("partition", "from")
    following = places.agg(fn.max("offset").alias("offset")).select(
        "partition", "from", fn.last("offset", ignorenulls=True).over(from_above).alias("following")
    )
    is_skipped = fn.col("following") < fn.col("offset")
    return _violations(
        gaps.join(following, ["partition", "from"]),
        _violation("poll-skip", is_skipped, "before", "name", fn.col("before") + 1, "id", "offset", "following"),
    )
