"""The order of the work: find missing offsets, write them in a job, commit; compact small files at times."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from minikafka.model import NO_EPOCH, Isolation, OffsetAndEpoch, TopicPartition
from minikafka.spark.options import ClientSettings
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.archive.manifest import Staged
from minikafka.spark.pipelines.archive.planning import (
    beginnings,
    check_parts,
    groups_to_compact,
    missing_ranges,
    share,
)
from minikafka.spark.pipelines.archive.state import local_directory, read_identity
from minikafka.spark.pipelines.archive.writing import archive_range, merge
from minikafka.spark.pipelines.running import PipelineError, Progress, Show, readable_errors, show_nothing, watched_jobs
from minikafka.spark.pipelines.topics import Extent, Topics, look_at
from minikafka.spark.source.ranges import OffsetRange, split_ranges

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

S = TypeVar("S")
T = TypeVar("T")

OFFSETS_PER_COMMIT: Final = 1_000_000
FILES_MIN: Final = 8
INTERVAL_S: Final = 10.0
ATTEMPTS: Final = 4
_BACKOFF_S: Final = 1.0
_OFFSETS_PER_TASK: Final = 50_000
"""A partition is not split into smaller parts than that, though there were idle cores: each part is a file."""


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """Records of a topic in a lake, and the number of new ones."""

    topic: str
    partitions: int
    new_records: int
    records: int
    files: int
    size_bytes: int
    first_date: str
    last_date: str


@dataclass(frozen=True, slots=True)
class Archived:
    """Result of an archive, by topic and in all."""

    directory: Path
    topics: tuple[TopicSummary, ...]
    commits: int
    compacted_files: int
    dropped_files: int
    is_stopped: bool

    @property
    def new_records(self) -> int:
        """Records that came into the lake."""
        return sum(topic.new_records for topic in self.topics)


def archive(
    spark: SparkSession,
    *,
    topics: Sequence[str] = (),
    to: str | Path,
    bootstrap_servers: str,
    follow: bool = False,
    interval_s: float = INTERVAL_S,
    offsets_per_commit: int = OFFSETS_PER_COMMIT,
    compact_at: int = FILES_MIN,
    add: bool = False,
    skip_lost: bool = False,
    drop_before: str | None = None,
    show: Show = show_nothing,
) -> Archived:
    """Copy the topics' new records into the lake, each offset exactly once; then end, or ``follow``.

    Records of transactions come once they are committed, and of aborted ones never. A partition's records behind an
    open transaction wait for its end.

    Without ``topics`` it continues all topics of the lake; ``add`` allows new ones in an existing lake. With ``follow``
    it repeats every ``interval_s`` seconds until SIGINT or SIGTERM. A commit has about ``offsets_per_commit`` offsets.
    ``compact_at`` small files of one partition and day are compacted; 0: never. If the next offsets were deleted,
    ``skip_lost`` goes on at the start of the log. ``drop_before``, a date, removes earlier days from the lake, also
    if their files are gone already; they are not archived again.

    Raises PipelineError or KafkaError. After any error, and after ``kill -9``, calling it again goes on.
    """
    if offsets_per_commit < 1 or compact_at < 0 or compact_at == 1 or interval_s <= 0:
        raise PipelineError("offsets per commit must be positive, the interval too; files to put together 2 or more")
    directory = local_directory(to)
    names = list(dict.fromkeys(topics)) or sorted(read_identity(directory).topic_ids)
    found = look_at(bootstrap_servers, *names)
    is_dropped = partial(_is_before, _day(drop_before), frozenset(names))
    with Lake.opened(directory, cluster_id=found.cluster_id, is_dropped=is_dropped) as lake:
        work = _Archive(spark, lake, bootstrap_servers, names, offsets_per_commit, compact_at, skip_lost, show)
        lake.take_in(found.ids, add=add)
        try:
            with watched_jobs(spark):
                work.catch_up(found)
                while follow:
                    time.sleep(interval_s)
                    found = look_at(bootstrap_servers, *names)
                    lake.take_in(found.ids)
                    work.catch_up(found)
        except KeyboardInterrupt:
            work.is_stopped = True
        return work.summary()


@dataclass(slots=True)
class _Archive:
    """A running archive."""

    spark: SparkSession
    lake: Lake
    bootstrap_servers: str
    topics: list[str]
    offsets_per_commit: int
    compact_at: int
    skip_lost: bool
    show: Show
    new_records: dict[str, int] = field(default_factory=dict)
    commits: int = 0
    compacted_files: int = 0
    is_stopped: bool = False

    def catch_up(self, found: Topics) -> None:
        """Archive all records that the topics had at the look-up."""
        if begun := beginnings(self.lake.manifest.ends, found.extent):
            self.lake.append(begun, ())
        missing = missing_ranges(self.lake.manifest.ends, found.extent, skip_lost=self.skip_lost)
        total = _length(missing)
        left, began = total, time.monotonic()
        while left:
            rows = self._archive(share(missing, self.offsets_per_commit), found)
            missing = missing_ranges(self.lake.manifest.ends, found.extent, skip_lost=self.skip_lost)
            left = _length(missing)
            self._tell(total - left, total, rows, time.monotonic() - began)
            self._compact()

    def summary(self) -> Archived:
        """The result."""
        files = [file for file in self.lake.manifest.files.values() if file.topic in self.topics]
        by_topic = tuple(
            self._of_topic(topic, [file for file in files if file.topic == topic]) for topic in self.topics
        )
        return Archived(
            self.lake.directory,
            by_topic,
            self.commits,
            self.compacted_files,
            self.lake.dropped_files,
            self.is_stopped,
        )

    def _of_topic(self, topic: str, files: Sequence[DataFile]) -> TopicSummary:
        dates = sorted(file.date for file in files) or [""]
        return TopicSummary(
            topic,
            sum(tp.topic == topic for tp in self.lake.manifest.ends),
            self.new_records.get(topic, 0),
            sum(file.rows for file in files),
            len(files),
            sum(file.size_bytes for file in files),
            dates[0],
            dates[-1],
        )

    # -- jobs -------------------------------------------------------------------------------------------------------

    def _archive(self, ranges: Mapping[TopicPartition, Extent], found: Topics) -> int:
        """One job and its commit; the number of records."""
        tasks = self._tasks(ranges, found)
        client = ClientSettings(self.bootstrap_servers, isolation_level=Isolation.READ_COMMITTED)
        with self.lake.staging() as directory:
            written = self._run(tasks, partial(archive_range, client=client, directory=directory))
            check_parts(ranges, [part for each in written for part in each.parts])
            files = [staged for each in written for staged in each.files]
            self.lake.append(ranges, files)
        self.commits += 1
        for file, _ in files:
            self.new_records[file.topic] = self.new_records.get(file.topic, 0) + file.rows
        return sum(file.rows for file, _ in files)

    def _tasks(self, ranges: Mapping[TopicPartition, Extent], found: Topics) -> list[OffsetRange]:
        """A range for each task. A partition is split if cores are idle and the parts are large enough for files."""
        whole = [
            OffsetRange(
                tp,
                OffsetAndEpoch(start, NO_EPOCH),
                OffsetAndEpoch(end, found.epochs[tp]),
                topic_id=found.ids[tp.topic],
            )
            for tp, (start, end) in ranges.items()
        ]
        wanted = min(self.spark.sparkContext.defaultParallelism, _length(ranges) // _OFFSETS_PER_TASK)
        return split_ranges(whole, ranges_min=wanted)

    def _compact(self) -> None:
        """Compact small files, a task for each group."""
        files = self.lake.manifest.files.values()
        groups = groups_to_compact(files, files_min=self.compact_at) if self.compact_at else []
        if not groups:
            return
        tasks = [([file.path for file in group], group[0].topic) for group in groups]
        with self.lake.staging() as directory:
            merged = self._run(tasks, partial(_merge, self.lake.directory, directory))
            self.lake.replace(list(zip(groups, merged, strict=True)))
        self.compacted_files += sum(map(len, groups))

    def _run(self, tasks: Sequence[S], work: Callable[[S], T]) -> list[T]:
        """Run each piece of work in a task of Spark. Tasks have no effect before a commit names their files."""
        job = self.spark.sparkContext.parallelize(tasks, len(tasks)).map(work)
        return attempted(job.collect, self._look_again)

    def _look_again(self) -> None:
        """After a failure: raise PipelineError for a lasting defect."""
        found, ends = look_at(self.bootstrap_servers, *self.topics), self.lake.manifest.ends
        self.lake.take_in(found.ids)
        extent = {tp: range_ for tp, range_ in found.extent.items() if tp in ends}
        missing_ranges(ends, extent, skip_lost=self.skip_lost)

    def _tell(self, done: int, total: int, rows: int, seconds: float) -> None:
        speed = done / seconds if seconds else 0.0
        self.show(Progress(rows=done, rows_per_second=speed, batches=self.commits, rows_total=total))


def attempted(job: Callable[[], T], look_again: Callable[[], None]) -> T:
    """Run a job, and repeat a failed one unless ``look_again`` raises: brokers go away and come back.
    Raises PipelineError in the end."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with readable_errors():
                return job()
        except PipelineError:
            if attempt == ATTEMPTS:
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


def _is_before(day: str, topics: Collection[str], file: DataFile) -> bool:
    return file.date < day and file.topic in topics


def _length(ranges: Mapping[TopicPartition, Extent]) -> int:
    return sum(end - start for start, end in ranges.values())


def _merge(lake: Path, directory: Path, task: tuple[list[str], str]) -> Staged:
    paths, topic = task
    return merge(lake, paths, topic, directory)
