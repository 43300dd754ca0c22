"""The part to read of each segment: a task for each segment with wanted records."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyspark.sql.datasource import InputPartition

from minikafka.model import TopicPartition
from minikafka.spark.offline.directories import LogDirectory, Replica, find_log_directories, find_replicas
from minikafka.spark.offline.options import LogOptions
from minikafka.spark.offline.transactions import Aborted, ended_transactions
from minikafka.spark.options import OptionError
from minikafka.storage.disk import Disk

NO_END: Final = 2**63 - 1

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SegmentTask(InputPartition):
    """A segment and the offsets to read in it: from ``start_offset`` to before ``end_offset``."""

    tp: TopicPartition
    node_id: int | None
    directory: str
    path: str
    base_offset: int
    size_bytes: int
    is_last: bool
    """It is the last of its log, where a batch that is cut off is the torn tail of a write and no damage."""
    start_offset: int
    end_offset: int
    high_watermark: int | None
    aborted: tuple[Aborted, ...] = ()
    """Transactions with records in it that are not read."""


def plan(disk: Disk, options: LogOptions) -> list[SegmentTask]:
    """The tasks, by topic, partition and directory. Raises OptionError without any wanted replica."""
    directories = find_log_directories(disk, options.paths)
    replicas = [replica for directory in directories for replica in find_replicas(disk, directory, options.wants)]
    _check_all_found(disk, directories, replicas, options)
    if not options.up_to_end:
        _check_high_watermarks(replicas)
    chosen = _fullest(replicas) if options.one_replica else replicas
    ordered = sorted(chosen, key=lambda replica: (replica.tp, replica.directory.path))
    return [task for replica in ordered for task in _tasks(disk, replica, options)]


def _tasks(disk: Disk, replica: Replica, options: LogOptions) -> Iterator[SegmentTask]:
    end_offset = NO_END if options.up_to_end else replica.high_watermark or 0
    aborted: tuple[Aborted, ...] = ()
    if options.read_committed:
        ended = ended_transactions(disk, replica, end_offset)
        aborted = ended.aborted
        if options.is_permissive or not ended.is_damaged:  # else it is read up to the damage, and fails
            end_offset = ended.last_stable_offset
    ends = [segment.base_offset for segment in replica.segments[1:]] + [NO_END]
    for segment, next_base_offset in zip(replica.segments, ends, strict=True):
        if segment.size_bytes and segment.base_offset < end_offset and next_base_offset > replica.log_start_offset:
            yield SegmentTask(
                tp=replica.tp,
                node_id=replica.directory.node_id,
                directory=replica.directory.path,
                path=segment.path,
                base_offset=segment.base_offset,
                size_bytes=segment.size_bytes,
                is_last=next_base_offset == NO_END,
                start_offset=replica.log_start_offset,
                end_offset=end_offset,
                high_watermark=replica.high_watermark,
                aborted=tuple(
                    each
                    for each in aborted
                    if each.first_offset < next_base_offset and segment.base_offset < each.marker_offset
                ),
            )


def _fullest(replicas: Iterable[Replica]) -> list[Replica]:
    by_partition: dict[TopicPartition, list[Replica]] = defaultdict(list)
    for replica in replicas:
        by_partition[replica.tp].append(replica)
    return [max(found, key=lambda r: (r.high_watermark or 0, r.end_hint)) for found in by_partition.values()]


def _check_all_found(disk: Disk, directories: list[LogDirectory], replicas: list[Replica], options: LogOptions) -> None:
    found = {replica.tp.topic for replica in replicas}
    missing = [topic for topic in options.topics if topic not in found]
    if found and not missing:
        return
    there = {replica.tp.topic for each in directories for replica in find_replicas(disk, each, lambda topic: True)}
    what = f"topic {missing[0]!r}" if missing else "topic of the options"
    names = ", ".join(sorted(there)[:10]) or "none"
    raise OptionError(f"{what} not found in {', '.join(options.paths)}; topics there: {names}")


def _check_high_watermarks(replicas: list[Replica]) -> None:
    """A directory without any high watermark is not a node's, or its node was killed before the first checkpoint."""
    unknown = [replica for replica in replicas if replica.high_watermark is None]
    if len(unknown) == len(replicas):
        raise OptionError(
            f"{replicas[0].directory.path} does not say up to where its logs are committed (it has no high watermark "
            "of what is asked for); set upTo=end to read them to their ends"
        )
    for replica in unknown:
        _log.warning("%s has no high watermark of %s: nothing of it is read", replica.directory.path, replica.tp)
