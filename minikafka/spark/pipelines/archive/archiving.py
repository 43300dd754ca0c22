"""The order of the work: find missing offsets, write them in a job, commit; compact small files at times."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.client import Security
from minikafka.client.security import PLAIN
from minikafka.model import NO_EPOCH, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.spark.brokers import Brokers
from minikafka.spark.cluster import cluster_of
from minikafka.spark.pipelines.archive.lake import Content, Lake
from minikafka.spark.pipelines.archive.places import AnotherArchiveError
from minikafka.spark.pipelines.archive.planning import (
    beginnings,
    check_parts,
    diverged,
    missing_ranges,
    share,
    suspects,
)
from minikafka.spark.pipelines.archive.workers import Run, running
from minikafka.spark.pipelines.archive.writing import UNSEEN, archive_range
from minikafka.spark.pipelines.running import PipelineError, Progress, Show, show_nothing
from minikafka.spark.pipelines.topics import Extent, Topics, look_at
from minikafka.spark.source.ranges import OffsetRange, split_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

OFFSETS_PER_COMMIT: Final = 1_000_000
FILES_MIN: Final = 8
INTERVAL_S: Final = 10.0
PROCESSES: Final = 2
ATTEMPTS: Final = 4
ON_DIVERGENCE: Final = ("error", "mark")
_BACKOFF_S: Final = 1.0
_TIDY_S: Final = 86_400.0
_OFFSETS_PER_TASK: Final = 50_000
"""A partition is not split into smaller parts than that, though there were idle cores: each part is a file."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """Records of a topic in a lake, and the number of new ones."""

    topic: str
    partitions: int
    new_records: int
    content: Content


@dataclass(frozen=True, slots=True)
class Archived:
    """Result of an archive, by topic and in all. ``diverged``: the partitions that were marked, and from where on."""

    lake: str
    topics: tuple[TopicSummary, ...]
    commits: int
    compacted_files: int
    dropped_files: int
    diverged: Mapping[TopicPartition, int]
    is_stopped: bool

    @property
    def new_records(self) -> int:
        """Records that came into the lake."""
        return sum(topic.new_records for topic in self.topics)


def archive(
    spark: SparkSession | Callable[[], SparkSession] | None = None,
    *,
    topics: Sequence[str] = (),
    to: str | Path,
    bootstrap_servers: str,
    security: Security = PLAIN,
    follow: bool = False,
    interval_s: float = INTERVAL_S,
    offsets_per_commit: int = OFFSETS_PER_COMMIT,
    compact_at: int = FILES_MIN,
    add: bool = False,
    skip_lost: bool = False,
    on_divergence: str = "error",
    drop_before: str | None = None,
    processes: int = PROCESSES,
    show: Show = show_nothing,
) -> Archived:
    """Copy the topics' new records into the lake, each offset exactly once; then end, or ``follow``.

    Records of transactions come once they are committed, and of aborted ones never. A partition's records behind an
    open transaction wait for its end.

    Without ``spark`` the tasks run in ``processes`` of this machine, without Java; a function that starts a session is
    called after all checks. Without ``topics`` it continues all
    topics of the lake; ``add`` allows new ones in an existing lake. With ``follow`` it repeats every ``interval_s``
    seconds until SIGINT or SIGTERM. A commit has about ``offsets_per_commit`` offsets. ``compact_at`` small files of
    one day are put together; 0: never. If the next offsets were deleted, ``skip_lost`` goes on at the start of the log.
    If archived records are no longer in their topic after an unclean election, that is an error, or with
    ``on_divergence`` mark they are marked in the lake, and the topic is archived again from there. ``drop_before``, a
    date, removes earlier days from the lake, also if their files are gone already; they are not archived again.

    Raises PipelineError or KafkaError. After any error, and after ``kill -9``, calling it again goes on.
    """
    if offsets_per_commit < 1 or compact_at < 0 or compact_at == 1 or interval_s <= 0 or processes < 1:
        raise PipelineError(
            "offsets per commit must be positive, the interval and the processes too; files to put together 2 or more"
        )
    if on_divergence not in ON_DIVERGENCE:
        raise PipelineError(f"--on-divergence must be {' or '.join(ON_DIVERGENCE)}, not {on_divergence}")
    day = _day(drop_before)
    names = list(dict.fromkeys(topics)) or sorted(Lake.open(to).topic_ids)
    brokers = Brokers(bootstrap_servers, security)
    found = look_at(brokers, *names)
    lake = Lake.opened(to, found.cluster_id, found.ids, add=add)
    dropped = lake.drop_before(day, names) if day else 0
    lake.check_files()
    with running(spark, processes) as run:
        marks = on_divergence == "mark"
        work = _Archive(run, lake, brokers, names, offsets_per_commit, compact_at, skip_lost, marks, show)
        tidied = -math.inf
        try:
            while True:
                work.catch_up(found)
                if time.monotonic() - tidied > _TIDY_S:
                    lake.tidy()
                    tidied = time.monotonic()
                if not follow:
                    break
                time.sleep(interval_s)
                found = look_at(brokers, *names)
                lake.take_in(found.ids)
        except KeyboardInterrupt:
            work.is_stopped = True
        return work.summary(dropped)


@dataclass(slots=True)
class _Archive:
    """A running archive."""

    run: Run
    lake: Lake
    brokers: Brokers
    topics: list[str]
    offsets_per_commit: int
    compact_at: int
    skip_lost: bool
    marks: bool
    show: Show
    new_records: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    compacted_files: int = 0
    diverged: dict[TopicPartition, int] = field(default_factory=dict)
    is_stopped: bool = False

    def catch_up(self, found: Topics) -> None:
        """Archive all records that the topics had at the look-up."""
        if begun := beginnings(self._ends(), found.extent):
            self.lake.append({tp: OffsetAndEpoch(offset, NO_EPOCH) for tp, offset in begun.items()}, ())
        self._check_divergence(found)
        total = _length(self._missing(found))
        left, began = total, time.monotonic()
        while left:
            attempted(partial(self._archive, found), self._look_again)
            left = _length(self._missing(found))
            seconds = time.monotonic() - began
            speed = (total - left) / seconds if seconds else 0.0
            self.show(Progress(rows=total - left, rows_per_second=speed, rows_total=total))
            if self.compact_at:
                compact = partial(self.lake.compact, self.topics, self.compact_at)
                self.compacted_files += attempted(compact, self._look_again)

    def summary(self, dropped: int) -> Archived:
        """The result."""
        partitions = Counter(tp.topic for tp in self.lake.ends)
        return Archived(
            lake=self.lake.location,
            topics=tuple(
                TopicSummary(topic, partitions[topic], self.new_records[topic], self.lake.content(topic))
                for topic in self.topics
            ),
            commits=self.commits,
            compacted_files=self.compacted_files,
            dropped_files=dropped,
            diverged=self.diverged,
            is_stopped=self.is_stopped,
        )

    # -- jobs -------------------------------------------------------------------------------------------------------

    def _archive(self, found: Topics) -> None:
        """One job and its commit."""
        ranges = share(self._missing(found), self.offsets_per_commit)
        client = self.brokers.settings(isolation_level=Isolation.READ_COMMITTED)
        written = self.run(self._tasks(ranges, found), partial(archive_range, client=client, lake=self.lake.location))
        check_parts(ranges, [part for each in written for part in each.parts])
        files = [file for each in written for file in each.files]
        self.lake.append({tp: OffsetAndEpoch(end, found.epochs[tp]) for tp, (_, end) in ranges.items()}, files)
        self.commits += 1
        for file in files:
            self.new_records[file.topic] += file.rows

    def _tasks(self, ranges: Mapping[TopicPartition, Extent], found: Topics) -> list[OffsetRange]:
        """A range for each task. A partition is split if cores are idle and the parts are large enough for files."""
        whole = []
        for tp, (start, end) in ranges.items():
            first, last = OffsetAndEpoch(start, NO_EPOCH), OffsetAndEpoch(end, found.epochs[tp])
            whole.append(OffsetRange(tp, first, last, topic_id=found.ids[tp.topic]))
        return split_ranges(whole, ranges_min=min(self.run.parallel, _length(ranges) // _OFFSETS_PER_TASK))

    def _ends(self) -> dict[TopicPartition, int]:
        return {tp: end.offset for tp, end in self.lake.ends.items() if tp.topic in self.topics}

    def _missing(self, found: Topics) -> dict[TopicPartition, Extent]:
        return missing_ranges(self._ends(), found.extent, skip_lost=self.skip_lost)

    def _check_divergence(self, found: Topics) -> None:
        """Compare the archived ends with the logs, by their epochs. Raises PipelineError unless it is to be marked."""
        ends = {tp: end for tp, end in self.lake.ends.items() if tp in found.extent}
        asked = suspects(ends, found.extent, found.epochs)
        agreed = cluster_of(self.brokers.settings()).truncated(asked)
        for tp, end in diverged(ends, found.extent, agreed).items():
            if not self.marks:
                raise PipelineError(
                    f"{tp} was archived up to offset {ends[tp].offset}, but its log is the same only up to "
                    f"{end.offset}: an unclean election lost the rest; --on-divergence mark marks the archived records "
                    f"from {end.offset} on, and archives what the topic has instead"
                )
            self.lake.mark(tp, end)
            self.diverged[tp] = end.offset

    def _look_again(self) -> None:
        """After a failure: raise PipelineError for a lasting defect."""
        self.lake.look_again()
        found = look_at(self.brokers, *self.topics)
        self.lake.take_in(found.ids)
        self._check_divergence(found)
        self._missing(found)


def attempted(job: Callable[[], T], look_again: Callable[[], None]) -> T:
    """Run a job, and repeat a failed one unless ``look_again`` raises: brokers go away and come back.
    Raises PipelineError in the end; at once for what will not be better."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return job()
        except PipelineError as error:
            if attempt == ATTEMPTS or isinstance(error, AnotherArchiveError) or UNSEEN in str(error):
                raise
            look_again()
            time.sleep(_BACKOFF_S * 2**attempt)
    raise AssertionError("the last attempt returns or raises")


def _day(drop_before: str | None) -> str:
    """A day in the format of a lake's paths. Raises PipelineError for any other text, and for future days."""
    if drop_before is None:
        return ""
    try:
        day = date.fromisoformat(drop_before)
    except ValueError:
        raise PipelineError(f"--drop-before must be a date such as 2026-11-21, not {drop_before}") from None
    if day > datetime.now(UTC).date():
        raise PipelineError(f"--drop-before {drop_before} lies in the future: nothing would stay in the lake")
    return day.isoformat()


def _length(ranges: Mapping[TopicPartition, Extent]) -> int:
    return sum(end - start for start, end in ranges.values())
