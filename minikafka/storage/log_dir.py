"""One log directory: its lock, its identity, its checkpoints and the logs in it.

``.lock`` keeps a second process out. The mark of a clean stop is removed after the next load. A directory may also have
future logs, copies of logs in another directory (``future_logs``).

When a write under the directory fails, the directory goes offline: every log in it refuses requests from then on. A
directory that cannot be opened is offline from the start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from uuid import UUID

from minikafka.event_log import get_logger
from minikafka.model import CLUSTER_METADATA_TOPIC, ZERO_TOPIC_ID, TopicPartition
from minikafka.storage.aside import set_directories_aside
from minikafka.storage.checkpoints import CHECKPOINT_FILES
from minikafka.storage.clean_shutdown import (
    CLEAN_SHUTDOWN_FILE,
    read_clean_shutdown,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from minikafka.storage.config import LogConfig
from minikafka.storage.damage import unidentified, write_refetch_mark
from minikafka.storage.directory_checkpoints import CheckpointJob, DirectoryCheckpoints
from minikafka.storage.directory_names import deleted_directory_name, stray_directory_name
from minikafka.storage.disk import Disk, DiskSpace, Lock, NamesFile
from minikafka.storage.errors import (
    PassingFailure,
    StorageFailure,
    collected,
    failure_of,
    is_full,
    is_passing,
)
from minikafka.storage.flush import FlushJob
from minikafka.storage.found import find_directories
from minikafka.storage.future_logs import FutureLogs
from minikafka.storage.identity import forget_replacement, identify, mark_as_ours
from minikafka.storage.last_stop import LastProcess, LastStop
from minikafka.storage.log import Log, LogHooks
from minikafka.storage.log_ends import LOG_ENDS_FILE, LogEnds, LogKey, read_log_ends
from minikafka.storage.meta import (
    PARTITION_METADATA_FILE,
    REPLACED_FILE,
    DirectoryMeta,
    MetaError,
    read_topic_id,
    write_topic_id,
)
from minikafka.storage.new_log import NewLogs
from minikafka.storage.registration_file import REGISTRATION_FILE, Registration, read_registration
from minikafka.storage.segment_cache import SegmentCache
from minikafka.storage.trash import Trash

logger = get_logger()

LOCK_FILE = ".lock"
_FILES = (REPLACED_FILE, LOG_ENDS_FILE, REGISTRATION_FILE, CLEAN_SHUTDOWN_FILE, *CHECKPOINT_FILES)

ConfigFor = Callable[[TopicPartition], LogConfig]


class LogDir:
    """See the module. ``logs`` are the partitions in it; ``failure`` is set once it is offline."""

    def __init__(
        self, disk: Disk, path: str, on_failure: Callable[[LogDir, StorageFailure], None], cache: SegmentCache
    ) -> None:
        self.path = path
        self.logs: dict[TopicPartition, Log] = {}
        self.futures = FutureLogs(disk, self)
        self.deleted_ids: set[UUID] = set()  # ids of the ``-delete`` directories that a start found
        self.strays: list[str] = []  # paths of logs that were set aside
        self.unusable: dict[TopicPartition, str] = {}  # entries with a log's name that cannot be opened, and why
        self.missing: set[TopicPartition] = set()  # in the checkpoints, but not here; see also ``ends.has_lost``
        self.failure: StorageFailure | None = None
        self.last_process = LastProcess()
        self.meta: DirectoryMeta | None = None
        self.registration: Registration | None = None  # that of the last process
        self._disk = disk
        self._on_failure = on_failure
        self._cache = cache
        self._trash = Trash()
        self.checkpoints = DirectoryCheckpoints(disk, path)
        self.new_logs = NewLogs(disk, self, cache, self.checkpoints.prepare_forget)
        self.ends = LogEnds(disk, path, self.fail)
        self._found_deleted: list[str] = []
        self._lock: Lock | None = None
        try:
            disk.mkdir(path)
            self._lock = disk.lock(f"{path}/{LOCK_FILE}")
        except BlockingIOError as error:
            raise MetaError(
                f"another process uses the log directory {path}; stop it or give this node its own log.dirs"
            ) from error
        except OSError as error:
            failure = self.refused(f"open the log directory {path}", error)
            if isinstance(failure, PassingFailure):
                raise failure from error

    # -- starting ---------------------------------------------------------------------------------------------------

    def check_identity(self, cluster_id: str, node_id: int) -> None:
        """Refuse another node's or cluster's directory (MetaError). ``meta`` stays None for one without an owner."""
        meta = identify(self._disk, self.path, cluster_id, node_id)
        if meta is not None:
            self._own(meta)

    def take_possession(self, meta: DirectoryMeta, vanished_id: UUID | None) -> None:
        """Mark a new directory as this node's. ``vanished_id``: of the log directory that was at this path before.

        VanishedDirectoryError for an empty mount point without the file ``replaced``.
        """
        mark_as_ours(self._disk, self.path, meta, vanished_id)
        self._own(meta)

    def _own(self, meta: DirectoryMeta) -> None:
        self.meta = meta
        set_directories_aside(self._disk, self.path, _FILES)
        forget_replacement(self._disk, self.path)
        self.registration = read_registration(self._disk, self.path)

    def load(self, config_for: ConfigFor, boot_id: str | None = None) -> None:
        """Open every log in the directory. ``boot_id``: see :mod:`minikafka.storage.registration_file`."""
        marked_epoch, registration = read_clean_shutdown(self._disk, self.path), self.registration
        was_killed = marked_epoch is None and registration is not None and registration.is_of_boot(boot_id)
        self.checkpoints.read()
        found = find_directories(self._disk, self.path)
        self.unusable, self.strays, self.futures.found = found.unusable, found.strays, found.futures
        self.deleted_ids = found.deleted_ids
        self._found_deleted = found.deleted
        noted = read_log_ends(self._disk, self.path, boot_id)
        self.last_process = LastProcess(marked_epoch, was_killed, noted)
        for tp in found.logs:
            self._load_log(tp, config_for(tp))
        self.ends.begin(boot_id, self.logs.values(), noted or {})
        self.missing = {
            tp
            for tp in self.checkpoints.partitions().difference(self.logs)
            if noted is None or tp.topic == CLUSTER_METADATA_TOPIC  # else the slots tell, by the topics' ids
        }
        if self.last_process.was_clean:
            remove_clean_shutdown(self._disk, self.path)
        else:
            self._settle()
        self.checkpoints.lower_to_ends(self.logs)

    def _load_log(self, tp: TopicPartition, config: LogConfig) -> None:
        """Open one log. Damage in its files does not stop the load of the others."""
        recorded, last_process, directory = self.checkpoints, self.last_process, self.path_of(tp)
        try:
            topic_id = read_topic_id(self._disk, directory)
            log = self.open_log(
                tp,
                config,
                topic_id=topic_id,
                last_stop=LastStop(
                    log_start_offset=recorded.log_start(tp),
                    recovery_point=recorded.recovery_points.get(tp, 0),
                    high_watermark=recorded.high_watermarks.get(tp, 0),
                    noted=last_process.noted_of(tp, topic_id),
                    is_clean=last_process.was_clean,
                    was_killed=last_process.was_killed,
                ),
            )
        except OSError as error:
            if is_passing(error) or is_full(error):  # the log may be whole
                raise
            self.unusable[tp] = str(error)
            return
        is_named = topic_id != ZERO_TOPIC_ID or tp.topic == CLUSTER_METADATA_TOPIC
        if not is_named and log.log_end_offset > 0:  # a power cut leaves new logs without a name and without records
            log.corruption = unidentified(directory)
            write_refetch_mark(self._disk, directory, log.corruption)
        first_dirty = min(recorded.first_dirty.get(tp, 0), log.log_end_offset)
        log.first_dirty_offset = max(log.first_dirty_offset, first_dirty)
        log.flusher.take_along(f"{directory}/{PARTITION_METADATA_FILE}")
        self.logs[tp] = log

    def _settle(self) -> None:
        """Sync everything: a killed process may have left visible but unsynced writes.

        Otherwise a power cut could still undo a vote or a truncation on which later work depends.
        """
        jobs = [log.prepare_flush() for log in self.logs.values()]
        self._disk.run_all([job.run for job in jobs])
        for log, job in zip(self.logs.values(), jobs, strict=True):
            if job.error is not None:
                raise job.error
            log.complete_flush(job)
        self._disk.fsync_dir(self.path)

    def open_log(
        self,
        tp: TopicPartition,
        config: LogConfig,
        *,
        topic_id: UUID,
        last_stop: LastStop | None = None,
        directory: str | None = None,
        cache: SegmentCache | None = None,
    ) -> Log:
        """Load a log, or begin one if there are no files. OSError when they cannot be read.

        ``cache``: in a thread, another one than the directory's.
        """
        return Log.open(
            self._disk,
            directory or self.path_of(tp),
            tp,
            config,
            topic_id=topic_id,
            last_stop=last_stop,
            cache=cache or self._cache,
            hooks=LogHooks(
                self.fail,
                partial(self._prepare_bounds, tp),
                self._trash.throw,
                partial(self.checkpoints.prepare_cut, tp),
                can_be_remade=tp.topic != CLUSTER_METADATA_TOPIC,
            ),
        )

    def space(self) -> DiskSpace:
        """Space of its file system; -1 when unknown."""
        try:
            return self._disk.space(self.path)
        except OSError:
            return DiskSpace(-1, -1)

    # -- logs -------------------------------------------------------------------------------------------------------

    def path_of(self, tp: TopicPartition) -> str:
        """Path of a partition's directory."""
        return f"{self.path}/{tp}"

    def delete(self, tp: TopicPartition, unique: UUID) -> None:
        """Delete a log: rename it now, remove its files with the trash."""
        log = self.logs.pop(tp)
        log.leave(StorageFailure(f"{tp} was deleted"))
        self.new_logs.note_former(log)
        self.checkpoints.leave(tp)
        self.throw_away(log.directory, tp, unique, delay_ms=log.config.file_delete_delay_ms)

    def identify(self, tp: TopicPartition, topic_id: UUID) -> None:
        """Give a log its topic id back; durable with its next flush. It stays damaged until it is fetched again.

        After a shortage the id is not written: the next start identifies the log again.
        """
        log = self.logs[tp]
        log.topic_id = topic_id
        had_records = log.log_end_offset > 0 or self.ends.has_lost(LogKey(topic_id, tp.partition))
        self.ends.add(log)
        path = f"{log.directory}/{PARTITION_METADATA_FILE}"
        log.flusher.take_along(path)
        try:
            if had_records:
                log.corruption = unidentified(log.directory)
                write_refetch_mark(self._disk, log.directory, log.corruption)
            write_topic_id(self._disk, log.directory, topic_id)
        except OSError as error:
            if isinstance(failure := self.refused(f"write {path}", error), PassingFailure):
                logger.warning("log identified in memory only", path=path, why=str(failure), effect="until a restart")

    def set_aside(self, tp: TopicPartition, unique: UUID) -> str | None:
        """Rename the log's directory as a stray; returns its path, or None when the directory is offline."""
        log = self.logs.pop(tp, None)
        if log is not None:
            log.leave(StorageFailure(f"{tp} was set aside"))
            self.checkpoints.leave(tp)
        target = f"{self.path}/{stray_directory_name(tp, unique)}"
        if not self._rename(self.path_of(tp), target, "set aside"):
            return None
        self.strays.append(target)
        return target

    def throw_away(
        self, directory: str, tp: TopicPartition, unique: UUID, *, is_repeatable: bool = False, delay_ms: int = 0
    ) -> None:
        """Rename the directory of a log, or of a copy, as deleted; its files go with the trash, after ``delay_ms``.

        PassingFailure after a shortage, if the rename can be repeated.
        """
        target = f"{self.path}/{deleted_directory_name(tp, unique)}"
        if self._rename(directory, target, "delete", is_repeatable=is_repeatable):
            self._trash.throw((target,), delay_ms)

    def _rename(self, source: str, target: str, what: str, *, is_repeatable: bool = False) -> bool:
        """False when the directory is offline, or the source is gone."""
        try:
            with self.final(f"{what} {source}", is_repeatable=is_repeatable), suppress(FileNotFoundError):
                self._disk.rename(source, target)
                return True
        except StorageFailure:
            return False
        return False

    def refused(self, what: str, error: OSError) -> StorageFailure | PassingFailure:
        """``what`` failed: the directory goes offline, except for a shortage. Returns the error to raise."""
        failure = failure_of(what, error)
        if isinstance(failure, StorageFailure):
            self.fail(failure)
        return failure

    def fail(self, failure: StorageFailure) -> None:
        """A write under the directory failed: all of it goes offline."""
        if self.failure is not None:
            return
        self.failure = failure
        for log in self._all_logs():
            log.go_offline(failure)
        self._on_failure(self, failure)

    def _all_logs(self) -> list[Log]:
        return [*self.logs.values(), *(future.log for future in self.futures.values())]

    def take_trash(self, now_ms: int | None) -> list[str]:
        """Paths of files and directories to remove now, each returned once; all of them without a time."""
        return self._trash.take(now_ms)

    # -- moves to another directory ------------------------------------------------------------------------------------

    def retire(self, tp: TopicPartition, unique: UUID) -> str:
        """A log's future is complete: rename the log as deleted. Returns the path to remove later."""
        log = self.logs[tp]
        target = f"{self.path}/{deleted_directory_name(tp, unique)}"
        with log.guard("move", is_repeatable=True):  # if its files are gone, that says nothing about the disk
            self._disk.rename(log.directory, target)
        del self.logs[tp]
        self.new_logs.note_former(log)
        log.leave(StorageFailure(f"{tp} moved to another directory"), has_copy=True)
        return target

    def open_complete_copy(
        self, tp: TopicPartition, topic_id: UUID, config: LogConfig, directory: str, former: DirectoryCheckpoints
    ) -> Log:
        """Load a copy that was whole and durable when it took a log's place. OSError when it cannot be read.

        ``former``: they told of that log. Those here may know of a later log start.
        """
        starts = [checkpoints.log_start(tp) for checkpoints in (former, self.checkpoints)]
        last_stop = LastStop(
            log_start_offset=None if None in starts else max(filter(None, starts), default=0),
            noted=self.last_process.noted_of(tp, topic_id),
            was_killed=self.last_process.was_killed,
        )
        return self.open_log(tp, config, topic_id=topic_id, last_stop=last_stop, directory=directory)

    def discard_found(self) -> None:
        """Remove the ``-delete`` directories that a start found: no copy depends on them any more."""
        self._trash.throw(self._found_deleted)
        self._found_deleted = []

    def take_in(self, tp: TopicPartition) -> Log:
        """The old log is retired: its future log here is the log, in its directory of before."""
        log = self.logs[tp] = self.futures.pop(tp).log
        log.is_arriving = True
        return log

    def put_in_place(self, log: Log) -> None:
        """Rename the directory of a log that was taken in as the log's. StorageFailure; also if its files are gone, and
        then it is made again under its own name."""
        former = log.directory
        log.relocate(self.path_of(log.topic_partition))
        with log.guard("move"):
            self._disk.rename(former, log.directory)

    def adopt(self, tp: TopicPartition, high_watermark: int) -> None:
        """At a start: a former process retired the log, and its future log here becomes the log, durably."""
        names, log = self.open_names(), self.take_in(tp)
        self.write_checkpoints({tp: high_watermark})  # first, as in an arrival: the next start may find it in place
        self.put_in_place(log)
        with self.final(f"move {tp} into {self.path}"):
            names.fsync()
        log.is_arriving = False

    def discard_later(self, path: str, delay_ms: int = 0) -> None:
        """Remove it with the trash."""
        self._trash.throw((path,), delay_ms)

    @contextmanager
    def final(self, what: str, *, is_repeatable: bool = False) -> Iterator[None]:
        """For code that changes names: the directory goes offline when it fails.

        Except for a shortage, if the code can be repeated: PassingFailure.
        """
        if self.failure is not None:
            raise self.failure
        try:
            yield
        except OSError as error:
            failure = failure_of(what, error)
            if not is_repeatable or isinstance(failure, StorageFailure):
                failure = StorageFailure(f"could not {what}: {error}", is_full=is_full(error))
                self.fail(failure)
            raise failure from error

    def open_names(self) -> NamesFile:
        """Open the directory, for the sync of a later rename. StorageFailure, PassingFailure."""
        with self.final(f"open the log directory {self.path}", is_repeatable=True):
            return self._disk.open_names(self.path)

    # -- checkpoints ------------------------------------------------------------------------------------------------

    def _prepare_bounds(self, tp: TopicPartition, high_watermark: int) -> Callable[[], None]:
        """See :meth:`Log.prepare_bounds`."""
        return self.checkpoints.prepare_bounds(tp, self.logs[tp], high_watermark)

    def write_checkpoints(self, high_watermarks: Mapping[TopicPartition, int]) -> None:
        """Write recovery points, log starts and high watermarks (row R22). A log without one keeps its last value."""
        for tp, log in self.logs.items():
            self.checkpoints.note(tp, log, high_watermarks.get(tp))
        job = self.prepare_checkpoints()
        if job is not None:
            job.run()
            self.complete_checkpoints(job)

    def prepare_checkpoints(self) -> CheckpointJob | None:
        """The same for a thread, of the rows that were noted: ``run`` it, then :meth:`complete_checkpoints`. None when
        the directory is offline."""
        return self.checkpoints.prepare(self.logs) if self.failure is None else None

    def complete_checkpoints(self, job: CheckpointJob) -> None:
        """Go offline if the job failed; after a shortage the next job will do."""
        if job.error is not None:
            self.refused(f"write checkpoints in {self.path}", job.error)

    # -- stopping ---------------------------------------------------------------------------------------------------

    def close(self, high_watermarks: Mapping[TopicPartition, int], broker_epoch: int) -> None:
        """A clean stop. The next start recovers a directory that is, or now goes, offline, or met a shortage."""
        try:
            if self.failure is None:
                self._close_logs()
                self.write_checkpoints(high_watermarks)
            if self.failure is None and not any(log.has_lost_files for log in self._all_logs()):
                write_clean_shutdown(self._disk, self.path, broker_epoch)
        except StorageFailure as failure:
            self.fail(failure)
        except PassingFailure as shortage:
            self._leave_unclean(shortage)
        except OSError as error:
            refusal = self.refused(f"mark {self.path} as stopped in order", error)
            if isinstance(refusal, PassingFailure):
                self._leave_unclean(refusal)
        finally:
            self._unlock()

    def _leave_unclean(self, shortage: PassingFailure) -> None:
        logger.warning("not stopped in order", path=self.path, why=str(shortage), effect="the next start recovers")

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _close_logs(self) -> None:
        jobs: list[tuple[Log, FlushJob]] = []
        shortages: list[PassingFailure] = []  # the disk may have failed another log
        for log in self._all_logs():
            is_cut_copy = log.is_cutting and log not in self.logs.values()  # a start verifies copies from the beginning
            if not log.has_lost_files and not is_cut_copy:
                with collected(shortages):
                    jobs.append((log, log.prepare_close()))
        self._disk.run_all([job.run for _log, job in jobs])
        for log, job in jobs:
            with collected(shortages):
                log.complete_close(job)
        if shortages:
            raise shortages[0]

    def abandon(self) -> None:
        """Stop like a crash: write nothing."""
        for log in self._all_logs():
            log.go_offline(StorageFailure(f"{self.path} was abandoned"))
        self._unlock()
