"""Making a log durable, with the slow part fit for a thread.

:func:`prepare` decides on the event loop what to sync, :meth:`FlushJob.run` syncs it anywhere, and :func:`complete`
moves the recovery point on the loop, or takes the log offline: a failed fsync is never tried again, for the kernel may
have dropped the pages and would say "ok" the next time. Jobs of one log may overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from os.path import dirname

from minikafka.storage.core import LogCore
from minikafka.storage.disk import Disk, File
from minikafka.storage.durable_end import DurableEnd
from minikafka.storage.epochs import LeaderEpochCache
from minikafka.storage.segment import INDEX_SUFFIXES


class FlushJob:
    """What to sync so that everything below ``up_to_offset`` is durable."""

    __slots__ = (
        "_directories",
        "_disk",
        "_durable_end",
        "_epochs",
        "_files",
        "_paths",
        "error",
        "generation",
        "is_done",
        "up_to_offset",
    )

    def __init__(
        self,
        disk: Disk,
        *,
        up_to_offset: int,
        generation: int,
        files: Sequence[File],
        paths: Sequence[str],
        directories: Sequence[str],
        epochs: LeaderEpochCache | None = None,
        durable_end: DurableEnd | None = None,
    ) -> None:
        self.up_to_offset = up_to_offset
        self.generation = generation
        self.is_done = False
        self.error: OSError | None = None
        self._disk = disk
        self._files = files
        self._paths = paths
        self._directories = directories
        self._epochs = epochs
        self._durable_end = durable_end

    def run(self) -> None:
        """Sync, in any thread. Nothing is raised: :func:`complete` looks at ``error``."""
        try:
            for file in self._files:
                file.fsync()
            for path in self._paths:
                self._sync(path)
            for directory in self._directories:
                self._disk.fsync_dir(directory)
            if self._epochs is not None:
                self._epochs.store(self._disk, self._directories[0])
            if self._durable_end is not None:
                self._durable_end.note(self.up_to_offset)
        except OSError as error:
            self.error = error
        self.is_done = True

    def _sync(self, path: str) -> None:
        try:
            self._disk.fsync_path(path)
        except FileNotFoundError:
            return  # retention or compaction took the segment away meanwhile


def is_due(log: LogCore, wall_ms: int) -> bool:
    """True when a rolled segment, ``flush.messages`` or ``flush.ms`` asks for a flush."""
    unflushed = log.log_end_offset - log.recovery_point
    return unflushed > 0 and (
        log.recovery_point < log.segments.active.base_offset
        or unflushed >= log.config.flush_messages
        or wall_ms - log.last_flush_ms >= log.config.flush_ms
    )


def prepare(log: LogCore, *, is_last: bool = False) -> FlushJob:
    """What to sync so that the log is durable up to its present end.

    The epoch file is written by :func:`complete`, lest jobs that overlap write it out of order; by the job itself only
    when it is the last one of the log.
    """
    is_stale = log.recovery_point < log.log_end_offset or log.is_directory_dirty
    segments = log.segments.since(log.recovery_point) if is_stale else []
    sealed = (segment for segment in segments if not segment.is_active)
    paths = [segment.path(kind) for segment in sealed for kind in INDEX_SUFFIXES]
    job = FlushJob(
        log.disk,
        up_to_offset=log.log_end_offset,
        generation=log.generation,
        files=[segment.file for segment in segments],
        paths=log.unsynced_paths + paths,
        directories=[log.directory, dirname(log.directory)] if log.is_directory_dirty or is_last else [],
        epochs=log.epochs if is_last else None,
        durable_end=log.durable_end,
    )
    log.unsynced_paths = []
    log.is_directory_dirty = False
    return job


def complete(log: LogCore, job: FlushJob, wall_ms: int) -> None:
    """A job has run: move the recovery point. StorageFailure, and offline, if it failed."""
    assert job.is_done
    if log.is_replaced:
        return  # everything of it was durable in the log that took its place
    with log.guard("flush"):
        if job.error is not None:
            raise job.error
        log.epochs.store(log.disk, log.directory)
    if job.generation == log.generation:
        log.recovery_point = max(log.recovery_point, job.up_to_offset)
        log.last_flush_ms = wall_ms
