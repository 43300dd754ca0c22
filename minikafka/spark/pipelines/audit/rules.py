"""The rules of ``ledger.checker``, over tables.

Most rules look at one row of a table: they say when it breaks them, and how to put it. So one pass over the table
counts all of its rules. The other rules are tables of violations: a row for each, with a sentence. Spark leaves out
what a count does not need, so the sentences cost something only when there is something to tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as fn

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


def _acknowledged_unread() -> Column:
    return fn.col("acknowledged_at").isNotNull() & fn.col("read_at").isNull()


def _is_sent() -> Column:
    return fn.col("sends") > 0


def _is_step(kind: Kind) -> Column:
    return (fn.col("kind") == int(kind)) & (fn.col("kind_before") == int(kind))


FIGURES: Final[dict[str, Callable[[], Column]]] = {
    "sent": _is_sent,
    "acknowledged": lambda: fn.col("acknowledged_at").isNotNull(),
    "read": lambda: fn.col("read_at").isNotNull(),
    "unknown": lambda: _is_sent() & fn.col("acknowledged_at").isNull() & ~fn.col("failed"),
}
"""What is counted of records and breaks no rule."""

OF_RECORDS: Final[dict[str, Rule]] = {
    # Acknowledged, below what was read, never read.
    "lost": Rule(
        lambda: _acknowledged_unread() & (fn.col("acknowledged_at") < fn.col("highest_read")),
        lambda: fn.format_string(
            "%s was acknowledged at %d and never read, though %d was", "id", "acknowledged_at", "highest_read"
        ),
        at="acknowledged_at",
    ),
    # Acknowledged, and above everything that was read to the end.
    "unseen": Rule(
        lambda: _acknowledged_unread() & fn.col("drained") & (fn.col("acknowledged_at") >= fn.col("highest_read")),
        lambda: fn.format_string(
            "%s was acknowledged at %d, and reading to the end stopped at %d", "id", "acknowledged_at", "highest_read"
        ),
        at="acknowledged_at",
    ),
    # One record at two offsets.
    "duplicate": Rule(
        lambda: fn.col("lowest") < fn.col("highest"),
        lambda: fn.format_string("%s is at %d offsets, from %d to %d", "id", "offsets", "lowest", "highest"),
        at="lowest",
    ),
    # Read, but never sent.
    "phantom": Rule(
        lambda: ~_is_sent() & fn.col("read_at").isNotNull(),
        lambda: fn.format_string("%s was read at %d and never sent", "id", "read_at"),
        at="read_at",
    ),
    # Read, although the producer was told that it certainly failed.
    "failed_read": Rule(
        lambda: fn.col("failed") & fn.col("read_at").isNotNull(),
        lambda: fn.format_string("%s was refused, and read at %d", "id", "read_at"),
        at="read_at",
    ),
}
"""Over ``tables.records`` with the partition's bounds."""

OF_SEQUENCES: Final[dict[str, Rule]] = {
    # A producer's later record at a lower offset than an earlier one.
    "reordered": Rule(
        lambda: fn.col("at") < fn.col("highest"),
        lambda: fn.format_string(
            "%s sent %s after %s, but it is at %d, before %d", "name", "id", "before.id", "at", "highest"
        ),
        at="at",
    ),
}
"""Over ``tables.sequences``."""

OF_STEPS: Final[dict[str, Rule]] = {
    # A consumer was handed an offset at or below its position.
    "poll_went_back": Rule(
        lambda: _is_step(Kind.READ) & (fn.col("offset") <= fn.col("before")),
        lambda: fn.format_string("%s was handed %s at %d after %d", "name", "id", "offset", "before"),
        at="offset",
    ),
    # One process saw the end of the partition move back.
    "end_offset_went_back": Rule(
        lambda: _is_step(Kind.END_OFFSET) & (fn.col("offset") < fn.col("before")),
        lambda: fn.format_string("%s saw the end at %d and then at %d", "name", "before", "offset"),
        at="offset",
    ),
}
"""Over ``tables.steps``."""


def is_gap() -> Column:
    """Of steps: a consumer went on to another offset than the next. Most often nothing lies between."""
    return _is_step(Kind.READ) & (fn.col("offset") > fn.col("before") + 1)


def poll_skipped(steps: DataFrame, offsets: DataFrame, names: DataFrame) -> DataFrame:
    """An assigned consumer was not handed a record that lies between two that it was handed."""
    assigned = steps.filter(fn.col("kind") == int(Kind.ASSIGNED)).select("partition", "process").distinct()
    gaps = steps.filter(is_gap()).join(assigned, ["partition", "process"], "semi")
    ascending = Window.partitionBy("partition").orderBy("offset")
    following = offsets.select(
        "partition", fn.col("offset").alias("before"), fn.lead("offset").over(ascending).alias("following")
    )
    found = gaps.join(following, ["partition", "before"]).filter(fn.col("following") < fn.col("offset"))
    return named(found, names).select("partition", fn.col("before").alias("at"), _skipped("id", "offset"))


def missing(offsets: DataFrame, bounds: DataFrame) -> DataFrame:
    """Offsets below the last stored one at which records were seen, but none is stored."""
    within = offsets.filter(~fn.col("stored")).join(fn.broadcast(bounds), "partition")
    return within.filter(fn.col("offset") < fn.col("highest_stored"))


def stored_skipped(offsets: DataFrame, sightings: DataFrame) -> DataFrame:
    """``poll_skipped`` of the consumer that read the topics; its order is the order of offsets."""
    is_stored, offset = fn.col("stored"), fn.col("offset")
    ascending = Window.partitionBy("partition").orderBy("offset")
    from_the_end = Window.partitionBy("partition").orderBy(fn.desc("offset"))  # looking ahead would be quadratic
    beside = offsets.select(
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
    sentence = fn.format_string("%s and %s were both acknowledged at %d", "other", "id", "offset")
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
    sentence = fn.format_string("offset %d holds %s for some and %s for others", "offset", "other", "id")
    return found.select("partition", fn.col("offset").alias("at"), sentence.alias("sentence"))


def _skipped(id_: str, offset: str) -> Column:
    sentence = fn.format_string(
        "%s went from %d to %s at %d and skipped %d", "name", "before", id_, offset, "following"
    )
    return sentence.alias("sentence")
