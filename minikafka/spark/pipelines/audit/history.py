"""Files of events -> items: a row for each record in an event.

An item is ``(partition, process, place, kind, id, offset, name)``. ``place`` orders the items of a process: the event's
number and the item's position in it. ``process`` is a checksum of its ``name``, which is compared and grouped faster.
``offset`` is null if unknown. For an assignment it is the start, if the history has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from minikafka.spark.pipelines.running import PipelineError

_EVENT: Final = "i BIGINT, p STRING, type STRING, f STRING, v ARRAY<ARRAY<STRING>>, line STRING"
_PLACE_BITS: Final = 24  # of a place: number of the item in its event
_SHOWN: Final = 80  # characters of a damaged line


class Kind(IntEnum):
    """Kind of an item. STORED comes from topics, all others from events."""

    SENT = 0
    ACKNOWLEDGED = 1
    FAILED = 2
    READ = 3
    ASSIGNED = 4
    DRAINED = 5
    END_OFFSET = 6
    STORED = 7
    LOG_START = 8
    RESENT = 9


_KINDS: Final = {
    "send invoke": Kind.SENT,
    "send ok": Kind.ACKNOWLEDGED,
    "send fail": Kind.FAILED,
    "poll ok": Kind.READ,
    "assign ok": Kind.ASSIGNED,
    "drained ok": Kind.DRAINED,
    "end_offset ok": Kind.END_OFFSET,
    "log_start ok": Kind.LOG_START,
    "resent ok": Kind.RESENT,
}
_WITH_ID: Final = (Kind.SENT, Kind.ACKNOWLEDGED, Kind.FAILED, Kind.READ, Kind.RESENT)
_WITH_OFFSET: Final = (Kind.ACKNOWLEDGED, Kind.READ, Kind.END_OFFSET, Kind.LOG_START)
_WITHOUT_ID: Final = (Kind.END_OFFSET, Kind.LOG_START, Kind.ASSIGNED)  # an offset in the place of an id
_BARE: Final = (Kind.ASSIGNED, Kind.DRAINED)  # the item may be a partition's name only


def history_files(history: str | Path) -> list[Path]:
    """The files of a history: a file, or those of a directory with ``.jsonl`` or ``.json``, by name."""
    path = Path(history)
    if not path.exists():
        raise PipelineError(f"history {path} not found; name a file of events or a directory of such files")
    if path.is_file():
        return [path.absolute()]
    found = sorted(file for file in path.absolute().iterdir() if file.suffix in (".jsonl", ".json"))
    if not found:
        raise PipelineError(f"no history found in {path}: no file name ends in .jsonl")
    return found


def read_events(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """``(file, i, p, type, f, v, kind, line)``: a row for each event.

    ``line`` is the text of an event whose value is no list of lists, or of a malformed line.
    """
    lines = spark.read.schema(_EVENT).option("columnNameOfCorruptRecord", "line")
    events = lines.json([file.as_uri() for file in files]).select("*", fn.col("_metadata.file_name").alias("file"))
    kinds = fn.create_map(*[fn.lit(part) for name, kind in _KINDS.items() for part in (name, int(kind))])
    events = events.withColumn("kind", fn.try_element_at(kinds, fn.concat_ws(" ", "f", "type")))
    return events.withColumn("p", fn.concat_ws(":", "file", "p")) if len(files) > 1 else events


def check_files(events: DataFrame) -> list[str]:
    """Refuse a damaged or missing line. An unfinished last line is allowed. Returns the names of the processes, which
    are few.

    Events are numbered without a gap. So if none is missing, a single malformed line is the last one.
    """
    i, line = fn.col("i"), fn.col("line")
    is_event = i.isNotNull() & fn.col("p").isNotNull() & fn.col("type").isNotNull() & fn.col("f").isNotNull()
    files = events.groupBy("file").agg(
        fn.count_if(is_event).alias("events"),
        fn.max(fn.when(is_event, i)).alias("last"),
        fn.sum(fn.when(is_event, i)).alias("sum"),
        fn.count_if(~is_event).alias("damaged"),
        fn.collect_set(fn.when(is_event, fn.col("p"))).alias("processes"),
        fn.max(fn.when(~is_event, fn.coalesce(fn.substring(line, 1, _SHOWN), fn.lit("")))).alias("shown"),
    )
    processes: dict[str, None] = {}
    for row in sorted(files.collect(), key=lambda row: row["file"]):
        processes |= dict.fromkeys(sorted(row["processes"]))
        count = row["events"]
        is_whole = count == 0 or (row["last"] == count - 1 and row["sum"] == count * (count - 1) // 2)
        is_torn = row["damaged"] == 1 and row["shown"].startswith("{")
        if row["damaged"] and not (is_torn and is_whole):
            shown = repr(row["shown"]) if row["shown"] else "JSON without the fields i, p, type and f"
            raise PipelineError(f"{row['file']}: not an event of a history: {shown}")
        if not is_whole:
            raise PipelineError(
                f"{row['file']}: it holds {count:,} events, and the last is number {row['last']:,}: "
                "lines are missing or there twice, so it proves nothing"
            )
    return list(processes)


def items(events: DataFrame, *kinds: Kind) -> DataFrame:
    """The items of those kinds. An invalid value ends the job with a sentence."""
    functions = {name.split()[0] for name, kind in _KINDS.items() if kind in kinds}
    chosen = events.filter(fn.col("f").isin(*functions) & is_kind(*kinds))  # the first is seen by Spark's JSON parser
    names = fn.transform(fn.from_json("line", "v ARRAY<STRING>")["v"], lambda name: fn.array(name))
    values = fn.when(is_kind(*_BARE), fn.coalesce("v", names)).otherwise(fn.col("v"))
    whole = _or_refuse_item(values.isNotNull(), values, fn.col("line"))
    exploded = chosen.select("file", "i", "p", "kind", fn.posexplode(whole).alias("position", "item"))
    item = fn.col("item")
    partition, second, third = (fn.get(item, fn.lit(index)) for index in range(3))
    told = fn.when(is_kind(*_WITHOUT_ID), second).otherwise(third)
    offset = told.try_cast("bigint")
    is_whole = partition.rlike("-[0-9]+$")
    is_whole &= ~is_kind(*_WITH_ID) | second.isNotNull()
    is_whole &= fn.when(is_kind(*_WITH_OFFSET), offset.isNotNull()).otherwise(told.isNull() | offset.isNotNull())
    is_whole &= ~is_kind(Kind.READ, Kind.ASSIGNED) | told.isNull() | (offset >= 0)
    is_placed = is_kind(*_WITH_OFFSET) & (~is_kind(Kind.ACKNOWLEDGED) | (offset >= 0)) | is_kind(Kind.ASSIGNED)
    return exploded.select(
        _or_refuse_item(is_whole, partition, fn.to_json(item)).alias("partition"),
        fn.xxhash64("p").alias("process"),
        (fn.shiftleft("i", _PLACE_BITS) + fn.col("position")).alias("place"),
        fn.col("kind").cast("tinyint"),
        fn.when(is_kind(*_WITH_ID), second).alias("id"),
        fn.when(is_placed, offset).alias("offset"),
        fn.col("p").alias("name"),
    )


def process_names(spark: SparkSession, names: Sequence[str]) -> DataFrame:
    """``(process, name)``."""
    table = spark.createDataFrame([(name,) for name in names], "name STRING")
    return table.select(fn.xxhash64("name").alias("process"), "name")


def is_kind(*kinds: Kind, of: str = "kind") -> Column:
    """True for items of those kinds."""
    return fn.col(of).isin([int(kind) for kind in kinds])


def or_refuse(condition: Column, value: Column, sentence: Column) -> Column:
    """The value where the condition holds. Elsewhere the sentence ends the job."""
    return fn.when(condition, value).otherwise(fn.raise_error(sentence))


def _or_refuse_item(condition: Column, value: Column, shown: Column) -> Column:
    shown = fn.substring(shown, 1, _SHOWN)
    where = (fn.col("file"), fn.lit(": event "), fn.col("i"), fn.lit(" cannot be judged: "))
    return or_refuse(condition, value, fn.concat_ws("", *where, shown))
