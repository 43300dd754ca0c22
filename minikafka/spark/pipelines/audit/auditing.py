"""The order of the work: refuse damaged files, group the items, judge, and report."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as fn

from minikafka.client import Security
from minikafka.client.security import PLAIN
from minikafka.errors import KafkaError
from minikafka.ledger.sentences import SENTENCES
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.audit import readers, rules, tables
from minikafka.spark.pipelines.audit.history import Kind, check_files, history_files, items, process_names, read_events
from minikafka.spark.pipelines.audit.readers import STORE_BIT, Reader
from minikafka.spark.pipelines.audit.stored import IDENTITY, READER, open_from_in_topics, stored_in_topics, stored_items
from minikafka.spark.pipelines.audit.verdict import (
    EXAMPLES_MAX,
    FIGURES,
    AuditVerdict,
    PartitionVerdict,
    topic_and_number,
)
from minikafka.spark.pipelines.running import PipelineError, Show, show_nothing, watched_jobs

_BYTES_PER_TASK: Final = 32 << 20
"""Of history, so that what a task brings together fits into the memory of the smallest session."""

_OF_RECORDS: Final = (Kind.SENT, Kind.ACKNOWLEDGED, Kind.FAILED, Kind.READ, Kind.RESENT)
_OF_ORDER: Final = (Kind.READ, Kind.ASSIGNED, Kind.END_OFFSET)
_OF_READERS: Final = (Kind.ASSIGNED, Kind.DRAINED, Kind.LOG_START)


def audit(
    spark: SparkSession,
    history: str | Path,
    topics: Sequence[str] = (),
    *,
    bootstrap_servers: str | None = None,
    security: Security = PLAIN,
    stored: DataFrame | None = None,
    identity: str = IDENTITY,
    log_starts: Mapping[str, int] = MappingProxyType({}),
    open_from: Mapping[str, int] = MappingProxyType({}),
    show: Show = show_nothing,
) -> AuditVerdict:
    """Judge a history: a file, or a directory with ``.jsonl`` files of several processes.

    The stored records come from the ``topics`` of a cluster (``bootstrap_servers``), or are given as ``stored``, in the
    source's columns, for example by ``stored_in_logs`` or ``read_lake``. They count as one more consumer that read all
    to the end. Without them the polls in the history decide. Only ``topics`` are judged, by default all; ``stored``
    must have all of them. ``identity`` is an SQL expression over the columns for a record's id in the history.
    ``log_starts``: by partition (``topic-number``), the offset below which records were deleted on purpose, in addition
    to those of the history. ``open_from``: by partition, where an open transaction begins, behind which nothing is
    stored yet. Of a cluster it is asked.

    Raises PipelineError if the history is damaged or has no event of a topic, if a topic is not found, or Spark fails.
    """
    files = history_files(history)
    with ExitStack() as stack:
        stack.enter_context(watched_jobs(spark, show))
        if stored is None and bootstrap_servers is not None:
            brokers = Brokers(bootstrap_servers, security)
            try:
                open_from = open_from_in_topics(topics, brokers)
            except KafkaError as error:
                raise PipelineError(error.message) from error
            stored = stored_in_topics(spark, topics, brokers)
        events = read_events(spark, files)
        names = check_files(events)
        size_bytes = sum(file.stat().st_size for file in files)
        tasks = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), 1 + size_bytes // _BYTES_PER_TASK)
        told = _of(topics, items(events, *{*_OF_RECORDS, *_OF_ORDER}))
        if stored is not None:
            told = told.unionByName(_of(topics, stored_items(stored, identity)), allowMissingColumns=True)
        said = _of(topics, items(events, *_OF_READERS)).collect()
        found, starts, deleted_below = readers.readers_of(said)
        sightings = tables.sightings(told, readers.intervals(spark, found), tasks).persist(StorageLevel.DISK_ONLY)
        stack.callback(sightings.unpersist)
        bits = [1 << index for index in range(max(map(len, found.values()), default=0))]
        highest = tables.highest(sightings, bits if stored is None else [*bits, STORE_BIT])
        deleted_below |= {name: max(deleted_below.get(name, 0), offset) for name, offset in log_starts.items()}
        store = None if stored is None else READER
        bounds = readers.bounds(spark, highest, found, starts, deleted_below, store, open_from)
        records = tables.records(sightings).join(fn.broadcast(bounds), "partition")
        figures = rules.figures(records).collect()
        told_of = {topic_and_number(row["partition"])[0] for row in figures if row["sent"]}
        for topic in topics:
            if topic not in told_of:
                raise PipelineError(f"the history contains no record sent to topic {topic}")
        read = _of(topics, items(events, *_OF_ORDER)).drop("name")
        steps = tables.steps(read if stored is None else read.unionByName(tables.stored_reads(sightings)))
        named = process_names(spark, [*names, READER])
        violations = _first_of(rules.violations(records, sightings, steps, bounds, named, tasks))
    figures.sort(key=lambda row: topic_and_number(row["partition"]))
    judged = (
        _verdict(row, violations[row["partition"]], found.get(row["partition"], ()), open_from) for row in figures
    )
    return AuditVerdict(tuple(judged))


def _of(topics: Sequence[str], items: DataFrame) -> DataFrame:
    """The items of those topics, or all."""
    return items.filter(fn.regexp_replace("partition", "-[0-9]+$", "").isin(*topics)) if topics else items


def _first_of(violations: DataFrame) -> dict[str, list[Row]]:
    """By partition: of each broken rule the violations at the lowest offsets, each with the ``count`` of all; and all
    consumers that were not assigned."""
    of_rule = Window.partitionBy("partition", "rule")
    number = fn.row_number().over(of_rule.orderBy("at", "sentence"))
    counted = violations.withColumns({"number": number, "count": fn.count("*").over(of_rule)})
    by_partition: dict[str, list[Row]] = defaultdict(list)
    chosen = counted.filter((fn.col("number") <= EXAMPLES_MAX) | (fn.col("rule") == rules.UNASSIGNED))
    for row in sorted(chosen.collect(), key=lambda row: row["number"]):
        by_partition[row["partition"]].append(row)
    return by_partition


def _verdict(
    figures: Row, violations: Sequence[Row], to_the_end: Sequence[Reader], open_from: Mapping[str, int]
) -> PartitionVerdict:
    promised = {reader.name for reader in to_the_end if not reader.begin}  # without an assignment: from the beginning
    moved = {row["sentence"] for row in violations if row["rule"] == rules.UNASSIGNED}
    counts = dict.fromkeys(SENTENCES, 0) | {row["rule"]: row["count"] for row in violations if row["rule"] in SENTENCES}
    return PartitionVerdict(
        figures["partition"],
        **{name: figures[name] for name in FIGURES},
        open_from=open_from.get(figures["partition"]),
        unassigned=tuple(sorted(moved - promised)),
        violations=counts,
        examples={
            rule: tuple(row["sentence"] for row in violations if row["rule"] == rule)
            for rule, count in counts.items()
            if count
        },
    )
