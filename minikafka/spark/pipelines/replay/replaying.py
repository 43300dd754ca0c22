"""The order of the work: open the sources, read the marks in the topic, write the rest in a job."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from minikafka.client import Security
from minikafka.client.security import PLAIN
from minikafka.model import Compression, Isolation
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.replay.sources import RECORDS, Source, open_source
from minikafka.spark.pipelines.replay.writing import FORMAT, ReplayedTopic, marked, replay_id, with_marks
from minikafka.spark.pipelines.running import PipelineError, Show, show_nothing, watched_jobs
from minikafka.spark.pipelines.topics import Topics, look_at

_STILL_S: Final = 1.0
_STILL_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of a replay."""

    topic: str
    kind: str
    replay: str
    sources: int
    keeps_partitions: bool
    records: int
    """How many the topic has of this replay now."""
    new_records: int
    seconds: float
    is_stopped: bool


def replay(
    spark: SparkSession,
    path: str | Path,
    *,
    to: str,
    bootstrap_servers: str,
    security: Security = PLAIN,
    kind: str | None = None,
    topics: Sequence[str] = (),
    key: str | None = None,
    value: str | None = None,
    by_key: bool = False,
    name: str | None = None,
    compression: str = "none",
    show: Show = show_nothing,
) -> Replayed:
    """Write a lake, or files of CSV or JSON lines, to a topic, without the records that it has of this replay.

    Records of a lake keep key, value, headers and timestamp. They keep their partition, too, if the topic has as many,
    unless ``by_key``: then, like those of files, they are placed by key. ``topics`` chooses among those of a lake.
    ``kind`` is lake, csv, json or records; None: detected. Records (lines of ``minikafka consume --json``) keep as
    much, and unless ``by_key`` the topic must have their partitions. ``key`` and ``value`` are columns of CSV and JSON.
    ``name`` makes another replay of the same sources, which writes them once more.

    Raises PipelineError or KafkaError. After any error, and after ``kill -9``, calling it again goes on.
    """
    began = time.monotonic()
    if compression.upper() not in Compression.__members__:
        raise PipelineError(f"--compression must be {', '.join(Compression.__members__).lower()}, not {compression}")
    brokers = Brokers(bootstrap_servers, security)
    found = look_at(brokers, to, isolation=Isolation.READ_UNCOMMITTED)
    source = open_source(spark, path, kind=kind, topics=topics, key=key, value=value)
    mine = replay_id(source.name, name) if name else source.name
    keeps = keeps_partitions(source, found.partition_count(to), by_key=by_key)
    rows = source.rows if keeps else _by_key(source.rows, found.partition_count(to))
    before, is_stopped = 0, False
    try:
        with watched_jobs(spark, show):
            # The replay's own records count wherever they are: it reads all, whatever transactions others have open.
            if _standing_still(brokers, to, found).offsets:
                present = _present(spark, brokers, to, mine)
                before = present.count()
                rows = rows.join(present, ["source", "position"], "left_anti")
            spark.dataSource.register(ReplayedTopic)
            writer = with_marks(_in_order(spark, rows, source.sources), mine).write.format(FORMAT).mode("append")
            writer.options(**brokers.options, topic=to, compression=compression).save()
    except KeyboardInterrupt:
        is_stopped = True
    records = _present(spark, brokers, to, mine).count()
    seconds = time.monotonic() - began
    return Replayed(to, source.kind, mine, source.sources, keeps, records, records - before, seconds, is_stopped)


def _present(spark: SparkSession, brokers: Brokers, topic: str, replay: str) -> DataFrame:
    """``(source, position)`` of the present records of a replay."""
    reader = spark.read.format("minikafka").options(**brokers.options)
    return marked(reader.option("subscribe", topic).option("includeHeaders", "true").load(), replay)


def keeps_partitions(source: Source, partition_count: int, *, by_key: bool) -> bool:
    """True when records keep their partition, in a topic with so many. Lines of ``minikafka consume`` do, unless
    ``by_key``: their partitions are unknown before they are read."""
    if by_key:
        return False
    return source.kind == RECORDS or (source.partitions is not None and source.partitions <= partition_count)


def _by_key(rows: DataFrame, partition_count: int) -> DataFrame:
    """Rows with their target partition; null: by key. Rows of one partition without a key stay together, and so in
    order."""
    without_key = fn.when(fn.col("key").isNull(), fn.col("partition") % partition_count)
    return rows.withColumn("partition", without_key.cast("int"))


def _in_order(spark: SparkSession, rows: DataFrame, sources: int) -> DataFrame:
    """All rows of a source in one task, in order."""
    tasks = max(1, min(sources, 4 * spark.sparkContext.defaultParallelism))
    return rows.repartition(tasks, "source").sortWithinPartitions("source", "position")


def _standing_still(brokers: Brokers, topic: str, found: Topics) -> Topics:
    """Wait until the topic has had no write for a moment, or for some moments: a record that a task of a killed session
    writes after our look-up would be written twice."""
    for _ in range(_STILL_ATTEMPTS):
        before = found
        if not before.offsets:
            break
        time.sleep(_STILL_S)
        found = look_at(brokers, topic, isolation=Isolation.READ_UNCOMMITTED)
        if before.extent == found.extent:
            break
    return found
