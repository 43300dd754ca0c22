"""Planted bugs of jobs in threads that meet what the loop did meanwhile."""

from __future__ import annotations

from typing import Any, NoReturn

from jobs_model import run
from planted.registry import Suite

from minikafka.storage.damage import write_refetch_mark
from minikafka.storage.errors import StorageFailure
from minikafka.storage.log import Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_ends import LogEnds
from minikafka.storage.meta import write_topic_id
from minikafka.storage.moving import ReplicaMove
from minikafka.storage.new_log import NewLogs
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.segment_list import Listed, SegmentList
from minikafka.storage.small_file import SmallFile

SUITE = Suite("jobs", "threads at work on logs that come, go and move", run, 3_000)


@SUITE.replaces(NewLogs, "check_unused")
def a_log_is_made_where_a_job_of_a_former_one_is_under_way(_new_logs: NewLogs, _path: str) -> None:
    """A sync or a cut of a deleted log lists or cuts the files of the next log with the same name."""


@SUITE.plants()
def a_slot_is_given_away_while_a_job_may_write_to_it(patch: Any) -> None:
    """A cut of a deleted log notes its end in the slot of another log."""
    free = LogEnds.free
    patch.setattr(LogEnds, "free", lambda ends, position, **_: free(ends, position))


@SUITE.replaces(NewLogs, "_make_files")
def a_log_has_its_name_before_a_segment(
    new_logs: NewLogs, forget: Any, tp: Any, topic_id: Any, config: Any, path: str, damage: Any
) -> Any:
    """Killed in between, it seems to have lost all its files."""
    disk, directory = new_logs._disk, new_logs._directory
    forget()
    disk.mkdir(path)
    if damage is not None:
        write_refetch_mark(disk, path, damage)
    write_topic_id(disk, path, topic_id)
    log = directory.open_log(tp, config, topic_id=topic_id, directory=path, cache=SegmentCache())
    log.corruption = damage
    return log


@SUITE.replaces(SmallFile, "_take_place")
def an_outdated_version_takes_the_place_of_a_newer_one(file: SmallFile, temporary: str, version: int) -> bool:
    """A list of segments, a checkpoint or leader epochs that a thread was slow to write come last, and stay."""
    file._disk.rename(temporary, file.path)
    file._named_version = version
    return True


@SUITE.replaces(SegmentList, "_rows")
def a_flush_lists_what_is_about_to_go(segments: SegmentList, present: Any, **_: bool) -> Any:
    """Retention takes away what a sync has just put on the list again."""
    active = present.active.base_offset
    return {one.base_offset: Listed() if one.base_offset == active else Listed(one.size) for one in present}


@SUITE.replaces(Log, "fail")
def files_that_are_gone_are_a_failure_of_the_disk(log: Any, what: str, error: OSError) -> NoReturn:
    """Somebody removes the files of one replica, and all replicas of its directory go offline."""
    failure = StorageFailure(f"could not {what} the log of {log.topic_partition}: {error}")
    log.go_offline(failure)
    log._hooks.on_failure(failure)
    raise failure from error


@SUITE.replaces(ReplicaMove, "take_over")
def what_only_a_copy_has_synced_counts_as_durable(move: ReplicaMove) -> None:
    """A power cut before its name is durable brings the former log back, which has less."""
    move._copy_epochs()
    move.future.producers = move.current.producers
    move.future.appender.follow_as(move.current.appender)
    move.current.let_go_of_parts()


@SUITE.replaces(LogDir, "put_in_place")
def a_log_without_files_cannot_arrive(directory: LogDir, log: Log) -> None:
    """Somebody removed them: its whole directory fails."""
    path = directory.path_of(log.topic_partition)
    with directory.final("move a log"):
        directory._disk.rename(log.directory, path)
    log.relocate(path)
