"""The order of the work: refuse damaged files, group the items, count, and report."""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import Window
from pyspark.sql import functions as fn

from minikafka.errors import KafkaError
from minikafka.spark.pipelines.audit import readers, rules, tables
from minikafka.spark.pipelines.audit.history import (
    Kind,
    check_files,
    history_files,
    items,
    marks,
    process_names,
    read_events,
)
from minikafka.spark.pipelines.audit.readers import STORE_BIT
from minikafka.spark.pipelines.audit.stored import IDENTITY, READER, open_from_in_topics, stored_in_topics, stored_items
from minikafka.spark.pipelines.audit.verdict import EXAMPLES_MAX, AuditVerdict, PartitionVerdict, topic_and_number
from minikafka.spark.pipelines.running import PipelineError, Show, show_nothing, watched_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from minikafka.spark.pipelines.audit.rules import Rule

_BYTES_PER_TASK: Final = 32 << 20
"""Of history, so that what a task brings together fits into the memory of the smallest session."""

_OF_RECORDS: Final = (Kind.SENT, Kind.ACKNOWLEDGED, Kind.FAILED, Kind.READ)
_OF_ORDER: Final = (Kind.READ, Kind.ASSIGNED, Kind.END_OFFSET)
_OF_READERS: Final = (Kind.ASSIGNED, Kind.DRAINED, Kind.LOG_START)


def audit(
    spark: SparkSession,
    history: str | Path,
    topics: Sequence[str] = (),
    *,
    bootstrap_servers: str | None = None,
    stored: DataFrame | None = None,
    identity: str = IDENTITY,
    log_starts: Mapping[str, int] = MappingProxyType({}),
    open_from: Mapping[str, int] = MappingProxyType({}),
    show: Show = show_nothing,
) -> AuditVerdict:
    """Judge a history: a file, or a directory with ``.jsonl`` files of several processes.

    The stored records come from the ``topics`` of a cluster (``bootstrap_servers``), or are given as ``stored``, in the
    source's columns, for example by ``stored_in_logs``. They count as one more consumer that read all to the end.
    Without them the polls in the history decide. Only ``topics`` are judged, by default all; ``stored`` must have all
    of them. ``identity`` is an SQL expression over the columns for a record's id in the history.
    ``log_starts``: by partition (``topic-number``), the offset below which records were deleted on purpose, in addition
    to those of the history.
    ``open_from``: by partition, where an open transaction begins, behind which nothing is stored yet. Of a cluster it
    is asked.

    Raises PipelineError if the history is damaged or has no event of a topic, if a topic is not found, or Spark fails.
    """
    files = history_files(history)
    with ExitStack() as stack:
        stack.enter_context(watched_jobs(spark, show))
        if stored is None and bootstrap_servers is not None:
            try:
                open_from = open_from_in_topics(topics, bootstrap_servers)
            except KafkaError as error:
                raise PipelineError(error.message) from error
            stored = stored_in_topics(spark, topics, bootstrap_servers)
        events = read_events(spark, files)
        names = check_files(events)
        size_bytes = sum(file.stat().st_size for file in files)
        tasks = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), 1 + size_bytes // _BYTES_PER_TASK)
        told = _of(topics, items(events, _OF_RECORDS))
        if stored is not None:
            told = told.unionByName(_of(topics, stored_items(stored, identity)))
        said = _of(topics, marks(events, _OF_READERS)).collect()
        found = readers.readers_of(said)
        sightings = tables.sightings(told, readers.intervals(spark, found), tasks).persist(StorageLevel.DISK_ONLY)
        stack.callback(sightings.unpersist)
        bits = [1 << index for index in range(max(map(len, found.values()), default=0))]
        highest = tables.highest(sightings, bits if stored is None else [*bits, STORE_BIT])
        starts = readers.log_starts_of(said)
        starts |= {name: max(starts.get(name, 0), offset) for name, offset in log_starts.items()}
        bounds = readers.bounds(spark, highest, found, starts, None if stored is None else READER, open_from)
        steps = tables.steps(_of(topics, items(events, _OF_ORDER)))
        named = process_names(spark, names)
        verdict = _Audit(sightings, steps, bounds, named, tasks, open_from, stored is not None).verdict()
    told_of = {partition.topic for partition in verdict.partitions if partition.sent}
    for topic in topics:
        if topic not in told_of:
            raise PipelineError(f"the history contains no record sent to topic {topic}")
    return verdict


def _of(topics: Sequence[str], items: DataFrame) -> DataFrame:
    """The items of those topics, or all."""
    return items.filter(fn.regexp_replace("partition", "-[0-9]+$", "").isin(*topics)) if topics else items


@dataclass(slots=True)
class _Audit:
    """A running judgement: the findings so far, by partition."""

    sightings: DataFrame
    steps: DataFrame
    bounds: DataFrame
    names: DataFrame
    tasks: int
    open_from: Mapping[str, int]
    is_stored: bool
    figures: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    violations: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    examples: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))

    def verdict(self) -> AuditVerdict:
        records = tables.records(self.sightings)
        self._judge_records(records.join(fn.broadcast(self.bounds), "partition"))
        self._judge(tables.sequences(records, self.tasks), rules.OF_SEQUENCES)
        offsets = tables.offsets(self.sightings, self.tasks)
        self._judge_offsets(offsets)
        self._judge_steps(offsets)
        return AuditVerdict(tuple(self._of_partition(name) for name in sorted(self.figures, key=topic_and_number)))

    def _of_partition(self, name: str) -> PartitionVerdict:
        figures = {figure: self.figures[name][figure] for figure in rules.FIGURES}
        examples = {rule: tuple(told[:EXAMPLES_MAX]) for rule, told in self.examples[name].items()}
        return PartitionVerdict(
            name,
            **figures,
            open_from=self.open_from.get(name),
            violations=self.violations[name],
            examples=examples,
        )

    def _judge_records(self, records: DataFrame) -> None:
        is_sent_again = fn.col("sends") > 1
        figures = {name: fn.count_if(condition()) for name, condition in rules.FIGURES.items()}
        self._judge(records, rules.OF_RECORDS, figures | {"sent_again": fn.count_if(is_sent_again)})
        if self._has_figure("sent_again"):
            row = records.filter(is_sent_again).head()
            assert row is not None
            raise PipelineError(
                f"{row['id']} was sent {row['sends']} times to {row['partition']}: a history must send each id once, "
                "or nobody can say which of them is there"
            )

    def _judge_offsets(self, offsets: DataFrame) -> None:
        acknowledged, read_only = fn.col("acknowledged"), fn.col("read_only")
        self._count(
            offsets,
            {
                "offset_reused": fn.sum(fn.greatest(acknowledged - 1, fn.lit(0))),
                "inconsistent_offset": fn.sum(fn.when(acknowledged > 0, read_only).otherwise(read_only - 1)),
            },
        )
        suspicious = offsets.filter(acknowledged + read_only > 1)
        self._tell(
            {
                "offset_reused": rules.offset_reused(self.sightings, suspicious),
                "inconsistent_offset": rules.inconsistent_offset(self.sightings, suspicious),
            }
        )
        if self.is_stored and not rules.missing(offsets, self.bounds).isEmpty():
            self._judge_table("poll_skipped", rules.stored_skipped(offsets, self.bounds, self.sightings))

    def _judge_steps(self, offsets: DataFrame) -> None:
        self._judge(self.steps, rules.OF_STEPS, {"gaps": fn.count_if(rules.is_gap())})
        if self._has_figure("gaps"):
            self._judge_table("poll_skipped", rules.poll_skipped(self.steps, offsets, self.bounds, self.names))

    def _judge(self, table: DataFrame, of: Mapping[str, Rule], figures: Mapping[str, Column] = {}) -> None:
        """Count the rules of one row and the figures in one pass, and collect examples of broken ones."""
        self._count(table, {name: fn.count_if(rule.is_broken()) for name, rule in of.items()}, figures)
        self._tell({name: rule.violations(table, self.names) for name, rule in of.items()})

    def _judge_table(self, rule: str, violations: DataFrame) -> None:
        self._count(violations, {rule: fn.count("*")})
        self._tell({rule: violations})

    def _count(self, table: DataFrame, of: Mapping[str, Column], figures: Mapping[str, Column] = {}) -> None:
        """Sums per partition; the driver gets one row for each."""
        sums = [column.alias(name) for name, column in (*of.items(), *figures.items())]
        for row in table.groupBy("partition").agg(*sums).collect():
            self.violations[row["partition"]].update({name: row[name] for name in of})
            self.figures[row["partition"]].update({name: row[name] for name in figures})

    def _has_figure(self, name: str) -> bool:
        return any(figures[name] for figures in self.figures.values())

    def _tell(self, violations: Mapping[str, DataFrame]) -> None:
        """Examples of broken rules: the lowest offsets of each partition."""
        broken = [
            table.select(fn.lit(rule).alias("rule"), "partition", "at", "sentence")
            for rule, table in violations.items()
            if any(counts[rule] for counts in self.violations.values())
        ]
        if not broken:
            return
        lowest = Window.partitionBy("rule", "partition").orderBy("at", "sentence")
        told = reduce(lambda some, others: some.union(others), broken).withColumn(
            "number", fn.row_number().over(lowest)
        )
        for row in told.filter(fn.col("number") <= EXAMPLES_MAX).sort("rule", "partition", "number").collect():
            self.examples[row["partition"]][row["rule"]].append(row["sentence"])
