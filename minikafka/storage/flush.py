"""Syncs of a log, with a slow part for a thread.

:meth:`Flusher.prepare_flush` on the event loop chooses the files to sync, :meth:`FlushJob.run` syncs them in any
thread, and :meth:`Flusher.complete_flush` on the loop moves the recovery point, or takes the log offline. A failed
fsync is never repeated: the kernel may have dropped the pages, and would report success the next time.

Jobs of one log may overlap, in any order: each syncs everything that no completed job has synced, including names of
segments and small files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os.path import basename, dirname
from typing import TYPE_CHECKING

from minikafka.model import NO_TIMESTAMP
from minikafka.storage.disk import Disk, File
from minikafka.storage.durable_end import DurableEnd
from minikafka.storage.errors import PassingFailure, StorageFailure, is_passing
from minikafka.storage.segment import Segment
from minikafka.storage.segment_list import Listing
from minikafka.storage.segment_names import INDEX_SUFFIXES, LOG_SUFFIX

if TYPE_CHECKING:
    from minikafka.storage.log import Log


@dataclass(slots=True, kw_only=True, eq=False)
class FlushJob:
    """Syncs that make everything below ``up_to_offset`` durable."""

    disk: Disk
    up_to_offset: int
    generation: int
    names_version: int
    files: Sequence[File]
    small_files: Sequence[str]
    sealed: Sequence[Segment]
    paths: Sequence[str]
    directories: Sequence[str]
    store_epochs: Callable[[], None]
    listing: Listing
    durable_end: DurableEnd | None
    preallocated: tuple[Segment, int] | None
    is_done: bool = False
    error: OSError | None = None

    def run(self) -> None:
        """Sync, in any thread. Never raises: :meth:`Flusher.complete_flush` checks ``error``."""
        self.error = None
        try:
            self._preallocate()
            for file in self.files:
                file.fsync()
            self.files = ()  # once: a sync that failed would say "ok" the next time
            for segment in self.sealed:
                self._write_indexes(segment)
            for path in (*self.small_files, *self.paths):
                self._sync(path)
            for directory in self.directories:
                self.disk.fsync_dir(directory)
            self.store_epochs()
            self.listing.store()  # last: what is listed must be there
            if self.durable_end is not None:
                self.durable_end.note(self.up_to_offset)
        except OSError as error:
            self.error = error
        self.is_done = True

    @property
    def must_repeat(self) -> bool:
        """True after a shortage of the process or the machine: run it again later."""
        return self.error is not None and is_passing(self.error) and not self.files

    def _preallocate(self) -> None:
        if self.preallocated is not None and self.preallocated[0].is_active:  # else it is full already
            segment, size = self.preallocated
            self.disk.reserve(segment.path(LOG_SUFFIX), size)

    def _write_indexes(self, segment: Segment) -> None:
        if self.disk.exists(segment.path(LOG_SUFFIX)):  # else retention took it away meanwhile
            self.disk.give_back(segment.path(LOG_SUFFIX))
            segment.write_indexes()
            for kind in INDEX_SUFFIXES:
                self._sync(segment.path(kind))

    def _sync(self, path: str) -> None:
        try:
            self.disk.fsync_path(path)
        except FileNotFoundError:
            return  # retention or compaction took the segment away meanwhile


class Flusher:
    """The parts of a log that are not durable yet: batches above its recovery point, names, small files.

    ``_sealed``: closed or recovered segments whose indexes are in memory only.
    """

    def __init__(self, log: Log, *, is_believed: bool) -> None:
        self._log = log
        self._unsynced: list[str] = []  # small files
        self._sealed = [segment for segment in log.segments.closed if not segment.is_index_written]
        self._names_version = 0 if is_believed else 1  # grows with each file that is made or renamed
        self._synced_names_version = 0
        self._last_flush_ms = NO_TIMESTAMP
        self._is_believed = is_believed
        self._loaded_end_offset = log.log_end_offset
        active = log.segments.active
        self._preallocated = active if active.size else None  # the last one that needs no room any more, or has it

    def names_changed(self) -> None:
        """A file was created or renamed; the next flush syncs the directory."""
        self._names_version += 1

    def close_segment(self, segment: Segment) -> None:
        """It is no longer active; the next flush writes its indexes, which takes long."""
        segment.deactivate()
        self._sealed.append(segment)

    def forget_since(self, offset: int) -> None:
        """Segments with ``offset`` or later records are cut: their indexes on disk are missing or wrong."""
        self._sealed = [segment for segment in self._sealed if segment.next_offset <= offset]

    def take_along(self, path: str) -> None:
        """The next flush syncs this small file, too."""
        self._unsynced.append(path)

    def relocated(self, directory: str) -> None:
        """The log's directory has another name now."""
        self._unsynced = [f"{directory}/{basename(path)}" for path in self._unsynced]

    def flush_due(self, now_ms: int) -> bool:
        """True when a rolled or new segment, the list of segments, ``flush.messages`` or ``flush.ms`` asks for a flush.

        ``now_ms``: monotonic. A wall clock that is set back by a day would put ``flush.ms`` off for a day.
        """
        log = self._log
        unflushed = log.log_end_offset - log.recovery_point
        if self._sealed or self._must_preallocate or log.segment_list.is_stale(log.segments):
            return True
        return unflushed > 0 and (
            log.recovery_point < log.segments.active.base_offset
            or unflushed >= log.config.flush_messages
            or now_ms - self._last_flush_ms >= log.config.flush_ms
        )

    def prepare_flush(self) -> FlushJob:
        """A job that makes the log durable up to its present end; run it, then :meth:`complete_flush`."""
        return self._prepare(syncs_names=self._has_new_names)

    def complete_flush(self, job: FlushJob, *, now_ms: int = NO_TIMESTAMP) -> None:
        """A job has run: move ``recovery_point``. If it failed, the log goes offline: StorageFailure.

        PassingFailure: repeat it, or run another job.
        """
        log = self._log
        assert job.is_done
        with log.guard("flush", is_repeatable=job.must_repeat):
            if job.error is not None:
                raise job.error
        self._synced_names_version = max(self._synced_names_version, job.names_version)
        self._unsynced = [path for path in self._unsynced if path not in job.small_files]
        done = set(job.sealed)
        self._sealed = [segment for segment in self._sealed if segment not in done]
        if job.generation == log.generation:
            log.recovery_point = max(log.recovery_point, job.up_to_offset)
            log.segment_list.stored(job.listing)
            self._last_flush_ms = now_ms

    def flush(self) -> None:
        """Make the log durable now, on this thread."""
        job = self.prepare_flush()
        job.run()
        self.complete_flush(job)

    def prepare_close(self) -> FlushJob:
        """Write indexes and producer state; run the returned job, then :meth:`complete_close`.

        PassingFailure after a shortage, or when a cut could not be done: the next start recovers the log.
        """
        log = self._log
        log.commit()
        if log.is_cutting:
            raise PassingFailure(f"{log.topic_partition} is being cut")
        log.write_due_mark()
        active = log.segments.active
        if self._has_changed and active.size:
            with log.guard("close", is_repeatable=True):
                log.snapshots.take(log.producers, log.log_end_offset)
            self.close_segment(active)
            log.recovery_point = min(log.recovery_point, active.base_offset)
        self._preallocated = active
        return self._prepare(syncs_names=self._has_changed, is_last=True)

    def complete_close(self, job: FlushJob) -> None:
        """A clean end: everything is durable. The log cannot be used again."""
        self.complete_flush(job)
        self._log.go_offline(StorageFailure(f"{self._log.topic_partition} is closed"))

    def close(self) -> None:
        """Close the log cleanly now, on this thread."""
        job = self.prepare_close()
        job.run()
        self.complete_close(job)

    @property
    def _has_new_names(self) -> bool:
        return self._synced_names_version < self._names_version

    @property
    def _has_changed(self) -> bool:
        """False while the files are exactly as a clean stop left them."""
        log = self._log
        is_rebuilt = self._has_new_names or not self._is_believed
        return is_rebuilt or log.log_end_offset != self._loaded_end_offset or log.generation > 0

    @property
    def _must_preallocate(self) -> bool:
        log = self._log
        return log.config.preallocate and log.segments.active is not self._preallocated

    def _preallocation(self) -> tuple[Segment, int] | None:
        if not self._must_preallocate:
            return None
        self._preallocated = active = self._log.segments.active
        return active, self._log.config.segment_bytes

    def _prepare(self, *, syncs_names: bool, is_last: bool = False) -> FlushJob:
        log = self._log
        log.commit()
        assert not log.is_cutting, "the log is being cut"
        is_stale = log.recovery_point < log.log_end_offset or self._has_new_names
        segments = log.segments.since(log.recovery_point) if is_stale else []
        files = [(segment.open_file, segment.path(LOG_SUFFIX)) for segment in segments]
        written = (segment for segment in segments if not segment.is_active and segment.is_index_written)
        indexes = [segment.path(kind) for segment in written for kind in INDEX_SUFFIXES]
        return FlushJob(
            disk=log.disk,
            up_to_offset=log.log_end_offset,
            generation=log.generation,
            names_version=self._names_version,
            files=[file for file, _path in files if file is not None],
            small_files=self._unsynced.copy(),
            sealed=self._sealed.copy(),
            paths=[path for file, path in files if file is None] + indexes,
            directories=[log.directory, dirname(log.directory)] if syncs_names else [],
            store_epochs=log.epochs.prepare_store(log.disk, log.directory),
            listing=log.segment_list.prepare_store(log.segments, is_last=is_last),
            durable_end=log.durable_end,
            preallocated=self._preallocation(),
        )
