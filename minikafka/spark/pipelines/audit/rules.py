"""The rules of ``ledger.checker``, over tables.

Most rules look at one row of a table: a condition, and a sentence for its violation. So one pass over the table counts
all of its rules. The other rules are tables of violations, with a sentence each. Spark computes no sentences for a
count: they have a cost only for actual violations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

from minikafka.ledger.sentences import SENTENCES, UNKNOWN_PLACE
from minikafka.spark.pipelines.audit.history import Kind
from minikafka.spark.pipelines.audit.stored import READER

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that looks at one row; ``at`` orders the examples. Columns can be made only while Spark runs."""

    is_broken: Callable[[], Column]
    sentence: Callable[[], Column]
    at: str

    def violations(self, table: DataFrame, names: DataFrame) -> DataFrame:
        """``(partition, at, sentence)``; ``names`` are those of processes."""
        found = named(table.filter(self.is_broken()), names)
        return found.select("partition", fn.col(self.at).alias("at"), self.sentence().alias("sentence"))


def named(table: DataFrame, names: DataFrame) -> DataFrame:
    """With the ``name`` of each process."""
    return table.join(fn.broadcast(names), "process", "left")


def _sentence(rule: str, *columns: str | Column) -> Callable[[], Column]:
    return lambda: fn.format_string(SENTENCES[rule], *columns)


def _is_sent() -> Column:
    return fn.col("sends") > 0


def _is_there() -> Column:
    return fn.col("acknowledged") | fn.col("read_at").isNotNull()


def _place() -> Column:
    """The place of a record, in words."""
    return fn.coalesce(fn.col("at").cast("string"), fn.lit(UNKNOWN_PLACE))


def _witness() -> Column:
    """A reader that had to get the record and did not: the first that got later records, else the first; or null."""
    at, seen_by = fn.col("at"), fn.col("seen_by")
    least, known = fn.col("log_start"), fn.coalesce(at, fn.lit(0))
    missed = fn.filter(
        "readers",
        lambda reader: (
            (known >= fn.greatest(reader["start"], least))
            & (known < reader["end"])
            & (seen_by.bitwiseAND(reader["bit"]) == 0)
        ),
    )
    passed = fn.filter(missed, lambda reader: at.isNull() | (reader["highest"] > at))
    return fn.coalesce(fn.get(passed, fn.lit(0)), fn.get(missed, fn.lit(0)))


def _is_gone() -> Column:
    """True when some reader had to get it and did not. The bits show records that all readers saw: nearly all."""
    return (fn.col("seen_by") != fn.col("all_bits")) & _is_there() & _witness().isNotNull()


def _is_passed_over() -> Column:
    return fn.col("at").isNull() | (fn.col("at") < _witness()["highest"])


def _is_step(kind: Kind) -> Column:
    return (fn.col("kind") == int(kind)) & (fn.col("kind_before") == int(kind))


def _is_unjudged() -> Column:
    """True when no reader had to get it, and it was not deleted on purpose."""
    at = fn.col("at")
    is_deleted = fn.coalesce(at < fn.col("log_start"), fn.lit(False))
    known = fn.coalesce(at, fn.lit(0))
    is_outside = (known < fn.col("least_start")) | (known >= fn.col("greatest_end"))
    return ~is_deleted & fn.coalesce(is_outside, fn.lit(True))


FIGURES: Final[dict[str, Callable[[], Column]]] = {
    "sent": _is_sent,
    "acknowledged": lambda: fn.col("acknowledged"),
    "read": lambda: fn.col("read_at").isNotNull(),
    "unknown": lambda: _is_sent() & ~fn.col("acknowledged") & ~fn.col("failed"),
    "unjudged": lambda: fn.col("acknowledged") & _is_unjudged(),
}
"""What is counted of records and breaks no rule."""

OF_RECORDS: Final[dict[str, Rule]] = {
    # Acknowledged, and missing for a reader that got later records.
    "lost": Rule(
        lambda: _is_gone() & fn.col("acknowledged") & _is_passed_over(),
        lambda: fn.format_string(SENTENCES["lost"], "id", _place(), _witness()["name"], _witness()["highest"]),
        at="at",
    ),
    # Acknowledged, and beyond the last record of a reader.
    "unseen": Rule(
        lambda: _is_gone() & fn.col("acknowledged") & ~_is_passed_over(),
        lambda: fn.format_string(SENTENCES["unseen"], "id", _place(), _witness()["name"], _witness()["highest"]),
        at="at",
    ),
    # Of unknown outcome, read by a consumer, and missing for a reader.
    "dirty_read": Rule(
        lambda: _is_gone() & ~fn.col("acknowledged"),
        lambda: fn.format_string(SENTENCES["dirty_read"], "id", _place(), _witness()["name"], _witness()["highest"]),
        at="at",
    ),
    # One record at two offsets.
    "duplicate": Rule(
        lambda: fn.col("lowest") < fn.col("highest"),
        _sentence("duplicate", "id", "offsets", "lowest", "highest"),
        at="lowest",
    ),
    # Read or acknowledged, but never sent.
    "phantom": Rule(
        lambda: ~_is_sent() & _is_there(),
        lambda: fn.format_string(SENTENCES["phantom"], "id", _place()),
        at="at",
    ),
    # Read, although the producer was told that it failed.
    "failed_read": Rule(
        lambda: fn.col("failed") & fn.col("read_at").isNotNull(),
        _sentence("failed_read", "id", "read_at"),
        at="read_at",
    ),
}
"""Over ``tables.records`` with the partition's bounds."""

OF_SEQUENCES: Final[dict[str, Rule]] = {
    # A producer's later record at a lower offset than an earlier one.
    "reordered": Rule(
        lambda: fn.col("at") < fn.col("highest"),
        _sentence("reordered", "name", "id", "before.id", "at", "highest"),
        at="at",
    ),
}
"""Over ``tables.sequences``."""

OF_STEPS: Final[dict[str, Rule]] = {
    # A consumer got an offset below its position.
    "poll_went_back": Rule(
        lambda: (fn.col("kind") == int(Kind.READ)) & (fn.col("offset") <= fn.col("before")),
        lambda: fn.format_string(SENTENCES["poll_went_back"], "name", "id", "offset", fn.col("before") + 1),
        at="offset",
    ),
    # One process saw the end of the partition move back.
    "end_offset_went_back": Rule(
        lambda: _is_step(Kind.END_OFFSET) & (fn.col("offset") < fn.col("before")),
        _sentence("end_offset_went_back", "name", "before", "offset"),
        at="offset",
    ),
}
"""Over ``tables.steps``."""


def is_gap() -> Column:
    """For steps: a consumer went on at another offset than the next one. Mostly there is no record in between."""
    return _is_step(Kind.READ) & (fn.col("offset") > fn.col("before") + 1)


def poll_skipped(steps: DataFrame, offsets: DataFrame, bounds: DataFrame, names: DataFrame) -> DataFrame:
    """An assigned consumer missed a record between two that it got."""
    log_starts = fn.broadcast(bounds.select("partition", "log_start"))
    gaps = steps.filter(is_gap() & fn.col("is_assigned")).join(log_starts, "partition")
    ascending = Window.partitionBy("partition").orderBy("offset")
    next_offsets = offsets.select(
        "partition", fn.col("offset").alias("before"), fn.lead("offset").over(ascending).alias("next")
    )
    kept = offsets.join(log_starts, "partition").filter(fn.col("offset") >= fn.col("log_start"))
    first_kept = fn.broadcast(kept.groupBy("partition").agg(fn.min("offset").alias("first_kept")))
    # Records below the log start may be gone.
    following = fn.when(fn.col("before") < fn.col("log_start"), fn.col("first_kept")).otherwise(fn.col("next"))
    found = (
        gaps.join(next_offsets, ["partition", "before"])
        .join(first_kept, "partition", "left")
        .withColumn("following", following)
        .filter(fn.col("following") < fn.col("offset"))
    )
    return named(found, names).select("partition", fn.col("before").alias("at"), _skipped("id", "offset"))


def missing(offsets: DataFrame, bounds: DataFrame) -> DataFrame:
    """Offsets from the log start to the last stored one at which records were seen, but none is stored."""
    within = offsets.filter(~fn.col("stored")).join(fn.broadcast(bounds), "partition")
    return within.filter((fn.col("offset") < fn.col("highest_stored")) & (fn.col("offset") >= fn.col("log_start")))


def stored_skipped(offsets: DataFrame, bounds: DataFrame, sightings: DataFrame) -> DataFrame:
    """``poll_skipped`` of the consumer that read the topics; its order is the order of offsets."""
    is_stored, offset = fn.col("stored"), fn.col("offset")
    kept = offsets.join(fn.broadcast(bounds), "partition").filter(is_stored | (offset >= fn.col("log_start")))
    ascending = Window.partitionBy("partition").orderBy("offset")
    from_the_end = Window.partitionBy("partition").orderBy(fn.desc("offset"))  # looking ahead would be quadratic
    beside = kept.select(
        *("partition", "stored", offset.alias("following")),
        fn.when(fn.lag("stored").over(ascending), fn.lag("offset").over(ascending)).alias("before"),
        fn.min(fn.when(is_stored, offset)).over(from_the_end).alias("after"),
    )
    found = beside.filter(~is_stored & fn.col("before").isNotNull() & fn.col("after").isNotNull())
    after = sightings.filter("stored").select("partition", fn.col("offset").alias("after"), "id")
    told = found.withColumn("name", fn.lit(READER)).join(after, ["partition", "after"], "left")
    return told.select("partition", fn.col("before").alias("at"), _skipped("id", "after"))


def offset_reused(sightings: DataFrame, suspicious: DataFrame) -> DataFrame:
    """Two records acknowledged at one offset."""
    by_id = Window.partitionBy("partition", "offset").orderBy("id")
    here = sightings.filter("acknowledged").join(suspicious, ["partition", "offset"], "semi")
    beside = here.select("partition", "offset", "id", fn.first("id").over(by_id).alias("other"))
    sentence = fn.format_string(SENTENCES["offset_reused"], "other", "id", "offset")
    return beside.filter(fn.col("id") != fn.col("other")).select(
        "partition", fn.col("offset").alias("at"), sentence.alias("sentence")
    )


def inconsistent_offset(sightings: DataFrame, suspicious: DataFrame) -> DataFrame:
    """A record read at an offset at which another was acknowledged, or else read."""
    acknowledged_first = Window.partitionBy("partition", "offset").orderBy(fn.desc("acknowledged"), "id")
    here = sightings.join(suspicious, ["partition", "offset"], "semi")
    beside = here.select(
        "partition", "offset", "id", "acknowledged", fn.first("id").over(acknowledged_first).alias("other")
    )
    found = beside.filter(~fn.col("acknowledged") & (fn.col("id") != fn.col("other")))
    sentence = fn.format_string(SENTENCES["inconsistent_offset"], "offset", "other", "id")
    return found.select("partition", fn.col("offset").alias("at"), sentence.alias("sentence"))


def _skipped(id_: str, offset: str) -> Column:
    sentence = fn.format_string(SENTENCES["poll_skipped"], "name", "before", id_, offset, "following")
    return sentence.alias("sentence")
